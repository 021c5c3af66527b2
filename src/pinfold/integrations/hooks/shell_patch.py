"""A patch in a shell line, which Codex applies by itself: `apply_patch <<'EOF'`, also after a `cd`.

Facts (codex-rs, apply-patch/src/invocation.rs): a line that consists of such a command and its document is
never run. Codex takes the document as written, not as the shell would expand it, and applies it. A patch
that it cannot apply is an error. Any other line is run by a shell.

INVARIANT: what is taken for a patch here is no more than what Codex takes for one. Were it run by a shell,
the document would start nothing.
"""

import re
from typing import NamedTuple

_LINE = re.compile(
    r"""\s*(?:cd[ \t]+(?P<where>[\w./+@-]+|'[^'\n]*'|"[\w ./+@-]*")[ \t]*&&[ \t]*)?"""
    r"""(?:apply_patch|applypatch)[ \t]*<<[ \t]*(?P<quote>['"]?)(?P<end>[A-Za-z_]\w*)(?P=quote)[ \t]*\n"""
    r"""(?P<patch>.*?)\n(?P=end)\s*""",
    re.DOTALL,
)
BEGIN, END = "*** Begin Patch", "*** End Patch"


class ShellPatch(NamedTuple):
    patch: str
    directory: str
    """Where the line goes before it; empty if nowhere."""


def shell_patch(line: str) -> ShellPatch | None:
    """The patch that a line consists of; None for any other."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    patch, end = found["patch"], found["end"]
    is_whole = patch.strip().startswith(BEGIN) and patch.strip().endswith(END)
    # The first line that is the document's end ends it. Without quotes, the shell would read what is in it.
    is_plain = bool(found["quote"]) or not any(c in patch for c in "$`\\")
    if not (is_whole and is_plain) or end in patch.split("\n"):
        return None
    where = found["where"] or ""
    return ShellPatch(patch, where[1:-1] if where[:1] in ("'", '"') else where)
