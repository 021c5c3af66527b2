"""What a model is told of each tool, and of a refusal: what happened, and what it may do next. Pure.

Descriptions are true of the settings at hand: where no bypass is open, none is mentioned.
"""

from collections.abc import Mapping

from pinfold.model.decision import Decision, Verdict
from pinfold.model.escape_text import visible
from pinfold.model.settings import Settings

REFUSED = (
    " If it is refused, nothing was done: the result says which rule or restriction stood in the way and what"
    " would change that. Tell the person; do not try to get there another way."
)
_TOOLS: Mapping[str, str] = {
    "execute_command": (
        "Runs a shell line inside the fence and returns its output, its exit code and the violations, that"
        " is, what the fence refused while it ran. A command that failed without one failed by itself."
    ),
    "read_file": "Reads a file of the projects. What is hidden does not exist for you.",
    "write_file": "Writes a file of the projects, whole and at once; its mode and line ends are kept.",
    "replace_in_file": "Replaces texts in a file of the projects: all of the given ones, or none.",
    "list_files": "Lists a directory of the projects, without what is hidden.",
    "search_files": "Searches the projects for a regular expression, without what is hidden.",
    "explain": "Says what would be done about a command, and why, and runs nothing.",
    "request_permission": (
        "Asks the person for exactly one more thing: a path to write, a host to reach, or git writes. Use it"
        " when a result or a violation says that this is what was missing, and name why. A no is final."
    ),
}
_BYPASS = (
    " `dangerouslyDisableSandbox` is for commands that the person asked in so many words to run without the"
    " fence; they are asked again."
)
_CLOSED = " There is no way to run it without the fence: `dangerouslyDisableSandbox` has no effect."


def describe_tools(settings: Settings) -> dict[str, str]:
    """The description of each tool, by its name."""
    told = {name: text + REFUSED for name, text in _TOOLS.items()}
    told["execute_command"] += _BYPASS if settings.sandbox.allow_unsandboxed else _CLOSED
    told["explain"] = _TOOLS["explain"]
    return told


def describe_refusal(decision: Decision) -> str:
    """Why something was not done, and what may be done next, in one line."""
    reason = decision.reasons[0]
    said = visible(reason.message)
    if reason.origin and reason.origin.file:
        said = f"{said} ({visible(str(reason.origin))})"
    if decision.verdict is Verdict.DENY:
        following = "nothing was done; leave it, or tell the person what you need it for"
    else:
        following = "a person has to allow it"
    remedy = f"; to change that: {visible(reason.remedy)}" if reason.remedy else ""
    return f"{said}{remedy}; {following}"
