"""Messages between our own processes, where one of them has ended."""

import pytest

from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.keeper import BuilderReport, NotReady, Ready


def test_last_words_are_heard_though_the_speaker_had_not_read_all() -> None:
    ours, theirs = channel.pair()
    with ours:
        channel.send(ours, Ready())
        with theirs:
            channel.send(theirs, NotReady("why"))
        assert channel.receive(ours, BuilderReport) == (NotReady("why"), [])
        with pytest.raises(channel.ChannelClosed):
            channel.receive(ours, BuilderReport)


def test_who_leaves_without_a_word_is_gone() -> None:
    ours, theirs = channel.pair()
    with ours:
        channel.send(ours, Ready())
        theirs.close()
        with pytest.raises(channel.ChannelClosed):
            channel.receive(ours, BuilderReport)
        with pytest.raises(channel.ChannelClosed):
            channel.send(ours, Ready())
