"""A world without a disk, for judging in tests: every path is where it says."""

from collections.abc import Mapping
from posixpath import normpath
from typing import Any

from pinfold import shell
from pinfold.model.decision import Decision
from pinfold.model.facts import Facts
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.model.request import RunCommand
from pinfold.model.settings import Settings
from pinfold.policy.decide import decide
from pinfold.settings import Sources, load
from pinfold.shell.rule_text import shape

ROOT = "/home/me/project"


class Paper:
    """A file system on paper: no links, no globs that match, `directories` exist."""

    def __init__(
        self, directories: tuple[str, ...] = (ROOT,), links: Mapping[str, str] | None = None
    ) -> None:
        self.directories = directories
        self.links = dict(links or {})
        self.helpers: tuple[str, ...] = ()
        self.ignored: tuple[str, ...] = ()

    def real(self, path: str) -> str:
        return self.links.get(normpath(path), normpath(path))

    def expand(self, pattern: str) -> tuple[str, ...] | None:
        return ()

    def is_process_own(self, path: str) -> bool:
        return False

    def links_below(self, directory: str) -> tuple[str, ...] | None:
        return tuple(self.links.values())

    def is_directory(self, path: str) -> bool:
        return path in self.directories

    def is_there(self, path: str) -> bool:
        return path in self.directories

    def is_git_ignored(self, path: str) -> bool:
        return path in self.ignored

    def git_helpers(self, directory: str) -> tuple[str, ...]:
        return self.helpers


def facts(line: str = "", **changes: Any) -> Facts:
    values: dict[str, Any] = {
        "cwd": ROOT,
        "roots": (ROOT,),
        "home": "/home/me",
        "files": Paper(),
        "policy": SandboxPolicy(
            type=PolicyType.WORKSPACE_READWRITE, network_access=False, block_git_writes=True,
            hidden=("/home/me/.ssh",),
        ),
        "script": shell.parse(line),
    }  # fmt: skip
    return Facts(**{**values, **changes})


def settings(document: Mapping[str, object] | None = None, managed: str = "") -> Settings:
    return load(Sources(user_values=document or {}, managed=managed), shape)


def judged(line: str, document: Mapping[str, object] | None = None, **changes: Any) -> Decision:
    """A line judged under a user's settings; `request` fields may be given as `request=dict(...)`."""
    request = RunCommand(line, **changes.pop("request", {}))
    return decide(request, settings(document), facts(line, **changes))
