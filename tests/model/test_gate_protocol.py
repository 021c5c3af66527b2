"""The messages between wardens and the gate: to bytes and back."""

import pytest

from pinfold.model.gate_protocol import (
    JOIN,
    LONGEST,
    LONGEST_NAME,
    LONGEST_REMEDY,
    OPEN,
    PROXY,
    GateAnswer,
    GateRequest,
    parse_answer,
    parse_request,
)


@pytest.mark.parametrize(
    "sent",
    [
        GateRequest(OPEN, 7, 1 << 62, 65535, "2606:4700::1"),
        GateRequest(JOIN, 1 << 63),
        GateRequest(PROXY, tag=3),
    ],
)
def test_a_request_is_read_as_it_was_written(sent: GateRequest) -> None:
    assert parse_request(sent.encoded()) == sent


@pytest.mark.parametrize(
    "answer",
    [
        GateAnswer(1),
        GateAnswer(2, 111, "a.test", "*.test", message="it is\0 denied: ä"),
        GateAnswer(
            3,
            111,
            "a.test",
            "",
            "the person said no",
            "no rule",
            "denied",
            "add it",
            "terminal",
        ),
    ],
)
def test_an_answer_is_read_as_it_was_written(answer: GateAnswer) -> None:
    assert parse_answer(answer.encoded()) == answer


def test_an_answer_that_is_too_long_is_cut() -> None:
    for answered in ("", "\N{ROCKET}" * LONGEST, "\0" * LONGEST):
        no = GateAnswer(1, 111, "a.test", "*.test", answered, "ä" * LONGEST, "denied", answered, "elsewhere")
        data = no.encoded()
        parsed = parse_answer(data)
        assert len(data) == LONGEST and (parsed.host, parsed.rule) == ("a.test", "*.test")
        assert parsed.answered == answered.strip("\0")[:LONGEST_NAME] and parsed.message.startswith("ä")
        assert parsed.remedy == answered.strip("\0")[:LONGEST_REMEDY]
        assert (parsed.code, parsed.asked_at) == ("denied", "elsewhere")
