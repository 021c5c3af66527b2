"""Messages between our own processes, where one of them has ended."""

import pytest

from pinfold.sandbox.linux.protocol import channel


def test_last_words_are_heard_though_the_speaker_had_not_read_all() -> None:
    ours, theirs = channel.pair()
    with ours:
        channel.send(ours, ("plan",))
        with theirs:
            channel.send(theirs, ("failed", "why"))
        assert channel.receive_any(ours)[:2] == (("failed", "why"), [])
        with pytest.raises(channel.Closed):
            channel.receive_any(ours)[:2]


def test_who_leaves_without_a_word_is_gone() -> None:
    ours, theirs = channel.pair()
    with ours:
        channel.send(ours, ("plan",))
        theirs.close()
        with pytest.raises(channel.Closed):
            channel.receive_any(ours)[:2]
        with pytest.raises(channel.Closed):
            channel.send(ours, ("plan",))
