"""What an agent's own file tools find in /tmp, and where they may write in the agent's own directory.

The commands of a conversation have a directory of the machine's /tmp as their /tmp. So a tool's `/tmp/x` is
led to the file that commands have under this name. What the machine has there, and commands have not, stays
as it is.

In its own directory an agent writes its plans and its memory. The rest that is shown there (skills, plugins)
is what the agent obeys or runs outside of the sandbox.

Facts: Claude Code's Edit looks for its file before it asks hooks, so `/tmp/x` fails there with its own words;
its Write and Read, and Codex's patches, take another path. Gemini CLI refuses /tmp before it asks hooks.
Under the directory's own path a file is the same one to commands and to every tool.
"""

import os
from collections.abc import Mapping
from typing import NamedTuple

from msgspec.structs import replace

from pinfold.integrations.hooks.codex import with_shell_patch
from pinfold.integrations.hooks.hook_call import HookCall, UnjudgedError
from pinfold.integrations.hooks.rewrite import has_service
from pinfold.integrations.hooks.tools import PATCH_TEXTS, PATCHED, PATHS, READS, plain, requests_of
from pinfold.model.home import expanded
from pinfold.model.partly_hidden import hidden_except, partly_hidden
from pinfold.model.policy import TEMPORARY
from pinfold.model.request import ReadFile, WriteFile
from pinfold.model.settings import TmpAccess
from pinfold.model.symlinks import real_path
from pinfold.policy.hidden_paths import shown_in
from pinfold.policy.paths import is_covered
from pinfold.session.judge import Judge
from pinfold.settings.defaults import WRITTEN_BY
from pinfold.state.conversation_tmp import scratch_directory

TMP = TEMPORARY[0]


class LedCall(NamedTuple):
    """A call whose paths in /tmp are those of the conversation's commands."""

    call: HookCall
    scratch: str
    """What these commands have as /tmp."""


def names_tmp(call: HookCall) -> bool:
    """Whether a file tool's call is about /tmp."""
    return call.is_of_conversation and any(
        isinstance(request, ReadFile | WriteFile) and is_covered(os.path.normpath(request.path), (TMP,))
        for request in call.requests
    )


def led_to_scratch(call: HookCall, judge: Judge, environ: Mapping[str, str]) -> LedCall | None:
    """The call with other paths; None if they stay as they are. Preconditions: `names_tmp`."""
    settings, policy = judge.source.settings, judge.source.policy
    is_in_sandbox = environ.get("PINFOLD_PEN")
    if is_in_sandbox or not has_service(environ) or settings.filesystem.tmp is not TmpAccess.PRIVATE:
        return None
    scratch = scratch_directory(call.agent, call.conversation, environ)
    granted = (*policy.additional_readwrite_paths, *policy.additional_readonly_paths)
    if not scratch or not settings.sandbox.enabled:
        return None
    paths = _Paths(scratch, (*judge.roots, *granted), plain(call.tool) in READS)
    given = paths.table(call.tool_input)
    if given == call.tool_input:
        return None
    try:
        requests = with_shell_patch(requests_of(call.tool, given, call.cwd), call.cwd)
    except UnjudgedError:
        return None
    return LedCall(replace(call, tool_input=given, requests=requests), scratch)


class _Paths(NamedTuple):
    scratch: str
    kept: tuple[str, ...]
    """Where commands see the machine's own files."""
    only_reads: bool

    def table(self, given: Mapping[str, object]) -> dict[str, object]:
        """A tool's input, or a part of it, with other paths."""
        return {
            key: self.patch(inner)
            if key in PATCH_TEXTS and isinstance(inner, str)
            else self.changed(inner, is_path=plain(str(key)) in PATHS)
            for key, inner in given.items()
        }

    def changed(self, value: object, *, is_path: bool) -> object:
        if isinstance(value, Mapping):
            return self.table(value)
        if isinstance(value, list):
            return [self.changed(inner, is_path=is_path) for inner in value]
        return self.led(value) if is_path and isinstance(value, str) else value

    def patch(self, text: str) -> str:
        lines = text.split("\n")
        for number, line in enumerate(lines):
            for head in PATCHED:
                if line.startswith(head):
                    lines[number] = head + self.led(line.removeprefix(head))
        return "\n".join(lines)

    def led(self, path: str) -> str:
        normal = os.path.normpath(path)
        if not is_covered(normal, (TMP,)) or is_covered(normal, (self.scratch, *self.kept)):
            return path
        inside = self.scratch + normal.removeprefix(TMP)
        if normal == TMP:
            return inside if self.only_reads and os.listdir(inside) else path
        is_machines = self.only_reads or os.path.lexists(normal)
        return path if is_machines and not os.path.lexists(inside) else inside


def is_own_file(agent: str, request: WriteFile, judge: Judge) -> bool:
    """Whether a path leads to the agent's plans or memory in the home, which the policy shows.

    A place that a variable names is left out: a project may set variables for its agent.
    """
    if agent not in WRITTEN_BY or request.delete:
        return False
    usual, patterns = WRITTEN_BY[agent]
    path = real_path(os.path.join(judge.cwd, request.path))
    own = partly_hidden(hidden_except(real_path(expanded(usual, judge.home)), patterns))
    return own is not None and own.shows(path) and bool(shown_in(path, judge.source.policy))
