"""What a line wants beyond its policy, by its words, so that a person can be asked before it starts. Pure.

It names what a program always needs for its subcommand: git's own directory, the hosts in addresses,
the registries of packages and images, and hidden files. What depends on configuration or on the project (a
remote's address, another index) is not guessed: the sandbox asks or reports while the line runs.

Nothing here allows anything.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

from pinfold.model.decision import Widening
from pinfold.model.facts import Facts
from pinfold.model.hosts import canonical, special_kind
from pinfold.model.policy import TEMPORARY, PolicyType, SandboxPolicy
from pinfold.model.script import Command, Word
from pinfold.model.settings import NetworkAccess, Settings
from pinfold.model.text_positions import Origin
from pinfold.policy.grants import GIT_WRITES
from pinfold.policy.hidden_paths import SECRETS, hidden_by, hiding_rule
from pinfold.policy.hosts import covers
from pinfold.policy.operand_paths import real_paths, working_directories, writable_roots
from pinfold.policy.paths import is_covered

HOST, READ = "network", "additional_readonly_paths"
ELSEWHERE = frozenset(["ssh", "docker", "podman", "nerdctl", "kubectl", "lxc", "vagrant", "adb"])
"""Wrappers whose commands run on another machine, or in another container."""

GIT_CHANGES = frozenset(
    [
        "add",
        "am",
        "cherry-pick",
        "commit",
        "fetch",
        "gc",
        "merge",
        "mv",
        "notes",
        "pull",
        "rebase",
        "repack",
        "reset",
        "revert",
        "rm",
        "switch",
        "checkout",
        "update-index",
        "update-ref",
    ]
)
GIT_MAKES = frozenset(["clone", "init"])
GIT_TRANSFERS = frozenset(["clone", "fetch", "pull", "push", "ls-remote"])
GIT_READING = {"stash": ("list", "show"), "worktree": ("list",), "submodule": ("status", "summary")}
"""Subcommands that change the repository, but for some of their own."""
ONLY_SHOWS = frozenset(["-n", "--dry-run", "-h", "--help", "-l", "--list"])
NAMED = frozenset(["branch", "tag"])
"""Subcommands that make what they name, and list it without a name."""

FETCHERS = frozenset(["curl", "wget", "http", "https", "aria2c", "lynx", "w3m", "yt-dlp"])
"""Programs whose operands are addresses."""
PORTS = {"http": 80, "https": 443, "ssh": 22, "git": 9418, "ftp": 21, "sftp": 22}
SCP = re.compile(r"(?:[\w.-]+@)?([\w-]+(?:\.[\w-]+)+):(?!//).*")
"""`user@host:path`, as git, scp and rsync take it."""
BARE = re.compile(r"([\w-]+(?:\.[\w-]+)+)(?::(\d+))?(?:[/?#].*)?")
"""An address without a scheme, which curl and wget take for http."""


class Registry(NamedTuple):
    """Where a program gets packages from, unless an option or a setting names another host."""

    subcommands: frozenset[str]
    hosts: tuple[str, ...]
    options: frozenset[str] = frozenset()
    """Those that name another place, by an address."""


def _registry(subcommands: str, hosts: str, options: str = "") -> Registry:
    found = tuple(f"{host}:443" for host in hosts.split())
    return Registry(frozenset(subcommands.split()), found, frozenset(options.split()))


PYPI, NPM = "pypi.org files.pythonhosted.org", "registry.npmjs.org"
REGISTRIES = {
    "pip": _registry("install download wheel", PYPI, "-i --index-url --extra-index-url -f --find-links"),
    "pipx": _registry("install upgrade", PYPI, "-i --index-url"),
    "uv": _registry(
        "add sync lock install compile", PYPI, "--index-url --default-index --index --extra-index-url"
    ),
    "poetry": _registry("add install lock update", PYPI),
    "pipenv": _registry("install lock sync update", PYPI, "-i --index --pypi-mirror"),
    "npm": _registry("install ci update outdated view audit", NPM, "--registry"),
    "pnpm": _registry("install add update outdated", NPM, "--registry"),
    "bun": _registry("install add update", NPM, "--registry"),
    "yarn": _registry("add install up upgrade", "registry.yarnpkg.com", "--registry"),
    "cargo": _registry("add fetch install search update", "index.crates.io static.crates.io"),
    "gem": _registry("install update", "rubygems.org index.rubygems.org", "-s --source"),
    "bundle": _registry("install update", "rubygems.org index.rubygems.org"),
    "go": _registry("get install", "proxy.golang.org sum.golang.org"),
    "composer": _registry("install require update", "repo.packagist.org"),
}
WITHOUT_REGISTRY = frozenset(["--no-index", "--offline", "--dry-run", "--help", "-h", "--frozen"])
IMAGES = frozenset(["docker", "podman", "nerdctl", "buildah"])
HUB = ("registry-1.docker.io:443", "auth.docker.io:443")


def find_wants(settings: Settings, policy: SandboxPolicy, facts: Facts) -> tuple[Widening, ...]:
    """What the line will want that its policy does not grant, where a person is asked about such things."""
    if policy.type is not PolicyType.WORKSPACE_READWRITE:
        return ()
    found: dict[Widening, None] = {}
    for part in facts.script.commands:
        facts.deadline.require_time()
        if ELSEWHERE & {*part.via}:
            continue
        if settings.filesystem.ask:
            found |= dict.fromkeys(_hidden(part, settings, policy, facts))
            if policy.block_git_writes and _changes_repository(part, facts):
                found[GIT_WRITES] = None
        if settings.network.access is NetworkAccess.ASK and policy.network_access is not True:
            hosts = dict.fromkeys(_hosts(part.stands_for or part))
            found |= {Widening(HOST, host): None for host in hosts if _may_be_asked(host, policy)}
    return tuple(found)


def _changes_repository(part: Command, facts: Facts) -> bool:
    what, *rest = [word.literal or "" for word in part.operands] or [""]
    if part.program != "git" or ONLY_SHOWS & {*part.flags}:
        return False
    if what in GIT_READING:
        changes = rest[:1] == [] or rest[0] not in GIT_READING[what]
    elif what in NAMED:
        changes = bool(rest)
    else:
        changes = what in GIT_CHANGES or what in GIT_MAKES
    places = _own(working_directories(part, facts) or (), facts)
    return changes and any(what in GIT_MAKES or _is_in_repository(each, facts) for each in places)


def _own(places: tuple[str, ...], facts: Facts) -> Iterator[str]:
    """Those that lie in the workspace, and not in what commands have as /tmp."""
    for place in places:
        is_temporary = is_covered(place, TEMPORARY) and not is_covered(place, facts.roots)
        if is_covered(place, writable_roots(facts)) and not is_temporary:
            yield place


def _is_in_repository(place: str, facts: Facts) -> bool:
    while is_covered(place, writable_roots(facts)):
        if facts.files.is_there(f"{place}/.git"):
            return True
        place = place.rpartition("/")[0]
    return False


def _hidden(part: Command, settings: Settings, policy: SandboxPolicy, facts: Facts) -> Iterator[Widening]:
    """Only what a grant of its own path opens: no other secret, nothing that a person or an ignore file
    hides, and nothing where commands can write, since that could become another file."""
    directories = working_directories(part, facts)
    redirected = [
        each.target for each in part.redirections if each.reads and not each.operator.startswith("<<")
    ]
    for word in (*part.reads, *redirected):
        if word.has_glob:
            continue
        for path in real_paths(word, directories, facts) or ():
            is_open = is_covered(path, writable_roots(facts))
            rule = hidden_by(path, policy, facts.roots)
            if rule != path or is_open or not facts.files.is_there(path):
                continue
            if hiding_rule(path, rule, settings, policy, facts.roots).origin == Origin(SECRETS):
                yield Widening(READ, path)


def _hosts(part: Command) -> Iterator[str]:
    texts = [text for word in part.operands if (text := _address(word))]
    what = texts[0] if texts else ""
    if part.program == "uv" and texts[:1] == ["pip"]:
        texts = texts[1:]
        what = texts[0] if texts else ""
    registry = REGISTRIES.get(part.program)
    if part.program in FETCHERS:
        for text in texts:
            yield from _of_url(text, bare=part.program in ("curl", "wget"))
    elif part.program == "git" and what in GIT_TRANSFERS:
        for text in texts[1:2]:
            yield from _of_url(text, scp=True)
    elif part.program in ("scp", "rsync"):
        for text in texts:
            yield from _of_url(text, scp=True)
    elif part.program in ("ssh", "sftp") and "-p" not in part.flags and "-P" not in part.flags:
        for text in texts[:1]:
            yield from _of_url(text if "://" in text or ":" in text else f"{text}:", scp=True)
    elif part.program in IMAGES and what == "pull":
        for text in texts[1:]:
            yield from _of_image(text)
    elif registry and what in registry.subcommands and not WITHOUT_REGISTRY & {*_words(part)}:
        named = list(_named_places(part, registry))
        for text in (*texts[1:], *named):
            yield from _of_url(text.rpartition("git+")[2])
        if not named and not any(each.name.endswith(("INDEX_URL", "REGISTRY")) for each in part.assignments):
            yield from registry.hosts


def _words(part: Command) -> list[str]:
    return [word.literal or "" for word in part.words]


def _named_places(part: Command, registry: Registry) -> Iterator[str]:
    words = _words(part)
    for option, following in zip(words, [*words[1:], ""], strict=True):
        name, equals, value = option.partition("=")
        if name in registry.options:
            yield value if equals else following


def _address(word: Word) -> str:
    """The word, or what is certain of it: its host, if the shell computes but a part of the path."""
    if word.literal is not None:
        return word.literal
    start = word.start
    return start if re.match(r"[a-z+]+://[^/]+/", start) else ""


def _of_url(text: str, *, bare: bool = False, scp: bool = False) -> Iterator[str]:
    if "://" in text:
        try:
            parts = urlsplit(text)
            port = parts.port or PORTS.get(parts.scheme.rpartition("+")[2], 0)
            yield from _spelled(parts.hostname or "", port)
        except ValueError:
            return
    elif scp and (found := SCP.fullmatch(text)):
        yield from _spelled(found[1], 22)
    elif bare and (found := BARE.fullmatch(text)):
        yield from _spelled(found[1], int(found[2] or 80))


def _of_image(name: str) -> Iterator[str]:
    first, slash, _ = name.partition("/")
    host, _, port = first.partition(":")
    if slash and ("." in host or port) and (port.isdigit() or not port):
        yield from _spelled(host, int(port or 443))
    elif host != "localhost":
        yield from HUB


def _spelled(host: str, port: int) -> Iterator[str]:
    """A host of the network. Nothing is asked about this machine or special addresses."""
    try:
        name = canonical(host)
    except ValueError:
        return
    if 0 < port < 65536 and not special_kind(name):
        yield f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _may_be_asked(host: str, policy: SandboxPolicy) -> bool:
    return not any(covers(denied, host) for denied in policy.network.deny) and not any(
        covers(allowed, host) for allowed in policy.network.allow or ()
    )
