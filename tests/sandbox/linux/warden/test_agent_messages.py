"""The messages of an ssh agent's client, and which of them pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.network.byte_pieces import PLACES, cut

from pinfold.sandbox.linux.warden.agent_filter import (
    LONGEST,
    PASSED,
    AgentMessageError,
    AgentMessageReader,
    is_agent,
)


def message(kind: int, rest: bytes = b"") -> bytes:
    return (1 + len(rest)).to_bytes(4, "big") + bytes((kind,)) + rest


@given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=40)), max_size=8), PLACES)
def test_messages_arrive_in_any_pieces(said: list[tuple[int, bytes]], places: list[int]) -> None:
    whole = [message(kind, rest) for kind, rest in said]
    reader = AgentMessageReader()
    found = [each for piece in cut(b"".join(whole), places) for each in reader.feed(piece)]
    assert [each.data for each in found] == whole
    assert [each.kind for each in found] == [kind for kind, _ in said]
    assert all(each.name for each in found)


@pytest.mark.parametrize("length", [0, LONGEST + 1, 0x47455420, 0xFFFFFFFF])
def test_an_invalid_length_is_an_error(length: int) -> None:
    reader = AgentMessageReader()
    with pytest.raises(AgentMessageError):
        reader.feed(length.to_bytes(4, "big"))


def test_only_list_and_sign_pass() -> None:
    assert set(PASSED) == {11, 13}


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_total(pieces: list[bytes]) -> None:
    reader = AgentMessageReader()
    try:
        for piece in pieces:
            reader.feed(piece)
    except AgentMessageError:
        return


AGENTS = (
    *("/tmp/ssh-XXXXabc/agent.123", "/run/user/1000/keyring/ssh", "/run/user/1000/gnupg/S.gpg-agent.ssh"),
    *("/home/me/.1password/agent.sock", "/run/user/1000/openssh_agent", "/tmp/vscode-ssh-auth-1.sock"),
    *("/home/me/.ssh/keys", "/run/user/1000/gcr/ssh", "/tmp/SSH-x/s"),
)


@pytest.mark.parametrize("path", AGENTS)
def test_paths_that_belong_to_agents(path: str) -> None:
    assert is_agent(path)


@pytest.mark.parametrize("path", ["/run/docker.sock", "/run/user/1000/bus", "/home/ssh/a/b/granted"])
def test_paths_that_belong_to_other_servers(path: str) -> None:
    assert not is_agent(path)
