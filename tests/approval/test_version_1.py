"""Answers of version 1, as that version wrote them, are read as version 2 has them."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from pinfold.approval.memory import Remembered
from pinfold.approval.version_1 import upgraded
from pinfold.model.permission import Reach

FILE = Path(__file__).parent / "version_1.json"
"""Written by version 1, in this project and this home."""
HOME = "/srv/pinfold-v1/home"
ARGUMENTS = {
    f"ln -s /etc/hosts {HOME}/out/link": ("/etc/hosts",),
    f"ln -s /etc/passwd {HOME}/out/link2": ("/etc/passwd",),
    f"chmod 644 {HOME}/out/old": ("600", "644"),
    f"chmod 600 {HOME}/out/old": ("644", "600"),
    f"mv {HOME}/out/a {HOME}/out/b": (f"{HOME}/out/a",),
    "tool": (f"{HOME}/project/bin/tool",),
    "true": ("look at it",),
    "touch ../../x": ("/srv/pinfold-v1/x",),
    "echo x > .bashrc": (f"{HOME}/project/.bashrc",),
}
"""What the messages said besides the rule; of every other answer nothing."""


def answers() -> list[Remembered]:
    return msgspec.convert(upgraded(FILE.read_bytes())["answers"], list[Remembered])


def test_nothing_but_the_reasons_is_another() -> None:
    for old, new in zip(msgspec.json.decode(FILE.read_bytes())["answers"], answers(), strict=True):
        now = msgspec.to_builtins(new)
        reasons = [[step, rule] for step, rule, _ in old["subject"].pop("reasons")]
        assert [[step, rule] for step, rule, _ in now["subject"].pop("reasons")] == reasons
        assert msgspec.json.decode(msgspec.json.encode(now)) == old


def test_what_messages_told_are_arguments() -> None:
    helped = 0
    for subject in (each.subject for each in answers()):
        (reason,) = subject.reasons
        if subject.command == "git status" and reason[0] == "otherwise":
            assert reason[2] == ("core.fsmonitor",)
            helped += 1
        else:
            expected = () if reason[0] == "person_wanted" else ARGUMENTS.get(subject.command, ())
            assert reason[2] == expected, (subject.command, reason)
    assert helped == 1


@pytest.mark.parametrize("reach", [Reach.COMMAND, Reach.TARGET])
@pytest.mark.parametrize("command", sorted(ARGUMENTS))
def test_an_answer_counts_for_the_same_arguments_alone(command: str, reach: Reach) -> None:
    (found,) = (each for each in answers() if each.subject.command == command and each.subject.reasons[0][2])
    answer = replace(found, reach=reach)
    ((step, rule, arguments),) = answer.subject.reasons
    other = (*arguments[:-1], f"{arguments[-1]}0")
    assert answer.answers(answer.session, answer.subject)
    for changed in (other, ()):
        assert not answer.answers(answer.session, replace(answer.subject, reasons=((step, rule, changed),)))


def test_a_message_that_version_1_did_not_write_has_no_arguments() -> None:
    text = FILE.read_text().replace("leading to", "which leads to").replace("PATH finds", "The path finds")
    subjects = [each["subject"] for each in upgraded(text.encode())["answers"]]
    for subject in subjects:
        if subject["operation"] == "symlink" or subject["command"] == "tool":
            assert subject["reasons"][0][2] == ()
