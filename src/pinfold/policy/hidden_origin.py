"""Where it is written that a path is hidden, and what would open it. Pure."""

from posixpath import basename
from typing import NamedTuple

from pinfold.model.locations import Origin
from pinfold.model.policy import SandboxPolicy
from pinfold.model.settings import Settings
from pinfold.policy.hidden_paths import HiddenBy, ignored_by, is_hidden_env_file
from pinfold.policy.ignore import NAMED
from pinfold.policy.reasons import remedy_for

SECRETS = "pinfold's own list of secrets"
OWN = "pinfold"
"""How what pinfold keeps is called, which is nobody's to read."""
CLOSED = "a directory that cannot be listed, so that its ignore files are not known"
KEY = "filesystem.hide"
ENV_FILES = "filesystem.env_files"
UNTRACKED = "git does not track it, and it may hold keys and passwords"


class Hider(NamedTuple):
    """What hides a path."""

    rule: str
    """A pattern or a path."""
    origin: Origin | None = None
    remedy: str = ""
    """Empty if nothing opens it."""


def hider(path: str, rule: str, settings: Settings, policy: SandboxPolicy, roots: tuple[str, ...]) -> Hider:
    """In full, what `hidden_by` has said of a path.

    No grant uncovers what somebody has hidden; a secret is opened by its own name.
    """
    for place, entry in enumerate(settings.filesystem.hide):
        spelled = (entry, *(f"{root}/{entry}" for root in roots))
        if rule and (rule in spelled or _is_home(entry, rule)):
            origin = settings.origin(KEY, place)
            return Hider(rule, origin, remedy_for(origin, f"take `{entry}` from `{KEY}`"))
    if rule is HiddenBy.IGNORE_FILES:
        pattern, directory = ignored_by(path, policy) or (rule, "")
        if directory == NAMED:
            return Hider(pattern, Origin(CLOSED), f"chmod u+rx {pattern}")
        return Hider(
            pattern, Origin(f"{rule} in {directory}" if directory else rule), "take it off that file"
        )
    if is_hidden_env_file(path, rule, policy):
        origin = settings.origin(ENV_FILES)
        remedy = f"name `{rule}` in `filesystem.read`, or set `{ENV_FILES} = true`"
        return Hider(rule, origin, remedy_for(origin, remedy))
    if not rule.startswith("/") or basename(rule) == OWN:
        return Hider(rule)
    return Hider(rule, Origin(SECRETS), f"name `{rule}` in `filesystem.read`, if every command may know it")


def _is_home(entry: str, rule: str) -> bool:
    """Whether an entry that starts at the home is a path, as far as can be told without knowing the home."""
    return entry.startswith("~/") and rule.endswith(entry[1:].rstrip("/"))
