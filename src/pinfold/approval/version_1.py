"""Reads answers of version 1, which distinguished reasons by their messages.

The patterns are what the messages of version 1 looked like. They never change: they are the format of a file,
not what a person is shown now. A message that fits none has no arguments, so its answer counts for nothing
that has some.
"""

import re
from typing import Any

import msgspec

_PATHS = (
    r"(?:it reads all of |it names )?(/.*?)(?:, where |, which is hidden by `| is protected: "
    r"| is protected in a git repository| lies in /| lies outside of the workspace$| is a dotfile$"
    r"| is hidden by `| would make /)"
)
_OF_STEP = {
    "unfenced_files": _PATHS,
    "file_protection": _PATHS,
    "env_file": r"(/.*) is hidden: ",
    "hidden_below": r"it reads all of (/.*), where `",
    "git_ignored": r"(/.*) is ignored by git$",
    "asked_by_hook": r"a hook wants a person to see it: `{rule}`: (.*)$",
    "otherwise": r"(?:PATH finds `.*` at (/.*), which commands can write"
    r"|this repository's own configuration may make git run programs: `(.*)`)$",
}
_OF_OPERATION = {
    "symlink": r"`.*` wants to .* {path}, leading to `(.*)`, which (?:lies outside|is protected)",
    "rename": r"`.*` wants to .* {path}, from (.*), which (?:lies outside|is protected)",
    "link": r"`.*` wants to .* {path}, from (.*), which (?:lies outside|is protected)",
    "chmod": r"`.*` wants to .* {path} \(from ([0-7]+) to ([0-7]+): ",
}
_OF_CALLS = ("outside", "protected")
"""Steps about calls that wait, by operation."""


def upgraded(data: bytes) -> dict[str, Any]:
    """The file as version 2 has it, still to be checked. Raises ValueError where it is damaged."""
    file = msgspec.json.decode(data)
    try:
        return {"version": 2, "answers": [_upgraded(answer) for answer in file["answers"]]}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not as version 1 wrote it: {error!r}") from None


def _upgraded(answer: dict[str, Any]) -> dict[str, Any]:
    subject = answer["subject"]
    reasons = [(step, rule, _arguments(subject, step, rule, said)) for step, rule, said in subject["reasons"]]
    return {**answer, "subject": {**subject, "reasons": reasons}}


def _arguments(subject: dict[str, Any], step: str, rule: str, message: str) -> tuple[str, ...]:
    patterns, key = (_OF_OPERATION, subject["operation"]) if step in _OF_CALLS else (_OF_STEP, step)
    pattern = patterns.get(key, "")
    filled = pattern.replace("{rule}", re.escape(rule)).replace("{path}", re.escape(subject["path"]))
    match = re.match(filled, message, re.DOTALL) if filled else None
    return tuple(found for found in match.groups() if found is not None) if match else ()
