"""Facts about the machine and the session, gathered before a request is judged: so judging stays pure."""

from collections.abc import Callable, Mapping
from typing import Protocol

from msgspec import Struct

from pinfold.model.deadline import NEVER, Deadline
from pinfold.model.decision import Verdict
from pinfold.model.policy import SandboxPolicy
from pinfold.model.script import Script
from pinfold.model.text_positions import Origin


class Files(Protocol):
    """Questions to the file system. Paths given and returned are absolute."""

    def real(self, path: str) -> str:
        """Where a path leads once every link is followed, whether or not it exists."""

    def expand(self, pattern: str) -> tuple[str, ...] | None:
        """The real paths a pattern matches; None if there are too many, or one is a process's own."""

    def is_process_own(self, path: str) -> bool:
        """Whether a link on the path leads through a process's directory in /proc (`/dev/fd`). Its target
        depends on which process looks, and on what that process does meanwhile."""

    def links_below(self, directory: str) -> tuple[str, ...] | None:
        """Where the links below a directory lead, at any depth; None if there is too much to look at."""

    def is_directory(self, path: str) -> bool: ...

    def is_there(self, path: str) -> bool:
        """Whether anything has this path; a link counts, wherever it leads."""

    def is_git_ignored(self, path: str) -> bool:
        """Whether git would ignore it, in the repository it lies in."""

    def git_helpers(self, directory: str) -> tuple[str, ...]:
        """Keys of the configuration of the repository around `directory` that make git run programs."""


class HookAnswer(Struct, frozen=True):
    """What one hook answered about this request."""

    hook: str
    """The hook's command, for a person."""
    verdict: Verdict
    origin: Origin
    message: str = ""


def _nowhere(_: str) -> str:
    return ""


class Facts(Struct, frozen=True):
    """Everything outside the request and the settings that a decision may depend on."""

    cwd: str
    """Where the request starts, absolute."""
    roots: tuple[str, ...]
    """The workspace: the directories of the session's projects, absolute and real."""
    home: str
    files: Files
    policy: SandboxPolicy
    """The user's own policy, as the settings give it."""
    script: Script = Script("")
    """The line of a `RunCommand`, parsed."""
    is_superuser: bool = False
    sandbox_trouble: str = ""
    """Why this machine cannot provide the sandbox; empty if it can."""
    inside_sandbox: bool = False
    """Whether Pinfold itself runs in a sandbox already: IS_SANDBOX is set and a probe agrees."""
    hooks: tuple[HookAnswer, ...] = ()
    own: Callable[[], tuple[str, ...]] = tuple
    """Paths that Pinfold itself obeys, runs or remembers. Computed only when a decision needs it: few do."""
    obeyed_elsewhere: Callable[[], Mapping[str, str]] = dict
    """Paths in the workspace, or names at any depth of it, that programs obey because of git's configuration
    or links from the home; each with the reason."""
    shadow: Callable[[str], str] = _nowhere
    """A program's name -> where PATH finds it, if a command may have put a file there; else empty."""
    deadline: Deadline = NEVER
    """When the answer is due."""
    unsettled: tuple[str, ...] = ()
    """Paths that may lead elsewhere when they are used: other commands of the line link or move them. A path
    that ends with a slash means everything below it."""
