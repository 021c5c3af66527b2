"""Which of the host's variables a command sees, and which it is given. Pure.

Four kinds are taken: what names a secret, what makes a loader or an interpreter run something before the
program itself, what leads to the machine's own agents and buses, and its proxies, which a pen cannot reach
and whose addresses often have a password. What has such a password in its value is taken as well, such as
`MAVEN_OPTS`. Names are compared without regard to case. `keep` and `drop` are
the policy's, and may have `*`; `drop` is stronger.

Agents name pagers and editors that wait for no person (`GIT_EDITOR=true`, or git's configuration in
variables): such values stay.
"""

import re
from collections.abc import Collection, Mapping
from fnmatch import translate
from functools import lru_cache

from msgspec import Struct

from pinfold.model.gate_protocol import GATE, PROXY_PORT
from pinfold.model.policy import EnvironmentRules

SECRET_WORDS = (
    "*token*", "*secret*", "*passw*", "*passphrase*", "*credential*", "*api_key*", "*apikey*",
    "*access_key*", "*private_key*",
)  # fmt: skip
SECRETS = (
    *SECRET_WORDS, "*_key", "*_pat", "*_dsn", "*_auth", "*cookie*", "*session_id*",
    "aws_*", "azure_*", "arm_*", "gcp_*", "google_application_*", "cloudsdk_*", "digitalocean_*",
    "docker_*", "kube*", "vault_*", "npm_config__*", "twine_*", "pgpass*", "mysql_pwd", "database_url",
    "redis_url", "mongo*_uri", "*_connection_string", "*_webhook*", "anthropic_*", "openai_*", "gemini_*",
    "cursor_*", "claude_*", "codex_*", "gh_*", "github_*", "gitlab_*", "ci_job_*",
)  # fmt: skip
LOADERS = (
    "ld_*", "dyld_*", "gconv_path", "glibc_tunables", "malloc_*", "getconf_dir", "hostaliases",
    "localdomain", "res_options", "nlspath", "locpath", "bash_env", "env", "bash_func_*", "shellopts",
    "bashopts", "prompt_command", "ps4", "zdotdir", "pythonstartup", "pythonpath", "pythonhome",
    "pythoninspect", "pythonuserbase", "perl5*", "perllib", "rubyopt", "rubylib", "node_options",
    "node_path", "java_tool_options", "_java_options", "jdk_*_options", "classpath", "git_*", "lessopen",
    "lessclose", "pager", "manpager", "editor", "visual", "browser", "rustc_wrapper",
    "rustc_workspace_wrapper", "cargo_target_*_runner", "make*flags", "goflags",
)  # fmt: skip
AGENTS = (
    "ssh_*", "gpg_agent_info", "dbus_*", "xdg_runtime_dir", "xauthority", "display", "wayland_*",
    "pulse_*", "gnome_*", "tmux*", "sty", "vscode_*", "term_session_id", "windowid", "systemd_*",
    "listen_*", "notify_socket", "journal_stream", "invocation_id", "ipc_*", "pinfold_*", "tmpdir",
    "temp", "tmp",
)  # fmt: skip
CALLED = frozenset(
    ("pager", "manpager", "git_pager", "gh_pager", "systemd_pager", "editor", "visual", "git_editor",
     "git_sequence_editor")
)  # fmt: skip
"""Variables that name a program to show or to edit a text."""
QUIET = frozenset(
    ("", ":", "true", "/bin/true", "/usr/bin/true", "cat", "/bin/cat", "/usr/bin/cat")
)  # fmt: skip
"""Their values that are kept: such a program waits for no person, and changes nothing."""
GIT_KEYS = {"core.pager": "GIT_PAGER", "core.editor": "GIT_EDITOR", "sequence.editor": "GIT_SEQUENCE_EDITOR"}
"""Keys of git's that name such a program, and the variables that do."""
READ_BY_SHELLS = frozenset(("CDPATH", "GLOBIGNORE", "BASHOPTS", "SHELLOPTS"))
"""By these a shell reads a line otherwise than it was judged: with `CDPATH`, `cd x` leads elsewhere."""
USUAL_PATH = "/usr/local/bin:/usr/bin:/bin"
"""Without a `PATH` bash looks in the working directory, too."""
NOT_SECRET = ("tokenizers_parallelism", "git_author_*", "git_committer_*", "git_terminal_prompt")
_URL = f"{GATE}:{PROXY_PORT}"
_PROXIES = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "GRPC_PROXY"), f"http://{_URL}") | {
    "FTP_PROXY": f"socks5h://{_URL}",
    "NO_PROXY": "localhost,127.0.0.1,127.0.0.0/8,0.0.0.0,::1,.localhost",
}
PROXIES = {
    **_PROXIES,
    **{name.lower(): value for name, value in _PROXIES.items()},
    "RSYNC_PROXY": _URL,
    "DOCKER_HTTP_PROXY": f"http://{_URL}",
    "DOCKER_HTTPS_PROXY": f"http://{_URL}",
    "CLOUDSDK_PROXY_TYPE": "http",
    "CLOUDSDK_PROXY_ADDRESS": GATE,
    "CLOUDSDK_PROXY_PORT": str(PROXY_PORT),
    "NODE_USE_ENV_PROXY": "1",
}
"""Where programs that know proxies find the gate. Others reach it by connecting to any host."""
HISTORIES = {
    "LESSHISTFILE": "-",
    "HISTFILE": "",
    "NODE_REPL_HISTORY": "",
    "PSQL_HISTORY": "/dev/null",
    "SQLITE_HISTORY": "/dev/null",
    "MYSQL_HISTFILE": "/dev/null",
}
"""Variables that make programs keep no history of what was typed. They would in files that are hidden."""
CREDENTIALS = "PINFOLD_PROXY_CREDENTIALS"
_SHORTEST = 4
"""Characters of a password that is looked for: fewer are in every value."""
TAKEN = (*SECRETS, *LOADERS, *AGENTS, "*_proxy")


def scrub(
    environment: Mapping[str, str],
    rules: EnvironmentRules,
    *,
    network: bool,
    temporary: str | None,
    sockets: Collection[str] = (),
    is_closed: bool = False,
) -> dict[str, str]:
    """The command's environment. What says where one of the granted sockets is, is kept.

    `is_closed`: the machine's tree shows root's own files as another's (`closed`).
    """
    given = {**_called_by_git(environment), **environment}
    kept = {
        name: value for name, value in given.items() if is_kept(name, rules) or is_quiet(name, value, rules)
    }
    for password in _proxy_passwords(environment):
        kept = {
            name: value for name, value in kept.items() if password not in value or _matches(name, rules.keep)
        }
    if sockets:
        kept |= {
            name: value
            for name, value in environment.items()
            if value.removeprefix("unix://") in sockets and not _matches(name, rules.drop)
        }
    kept["PATH"] = kept.get("PATH") or USUAL_PATH
    if temporary:
        kept["TMPDIR"] = temporary
        # The home is read-only, and these would complain of it each time.
        kept.setdefault("XDG_CACHE_HOME", f"{temporary}/cache")
        kept.setdefault("npm_config_cache", f"{temporary}/cache/npm")
    # They look for newer versions of themselves once a week, by what their cache remembers. In a private one
    # that is always due, and a person would be asked about a host that the command itself does not need.
    kept.setdefault("npm_config_update_notifier", "false")
    kept.setdefault("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    kept.setdefault("NO_UPDATE_NOTIFIER", "1")
    kept = HISTORIES | kept
    kept.setdefault("GIT_OPTIONAL_LOCKS", "0")
    # No command gives files to another user in a pen. Root's tar would try to, and fail.
    kept.setdefault("TAR_OPTIONS", "--no-same-owner")
    if is_closed:
        _trust_every_owner(kept)
    if network:
        kept.update(PROXIES)
    kept.update(PINFOLD_PEN="1", PINFOLD_PEN_NETWORK=str(int(network)), IS_SANDBOX="1")
    return kept


def _called_by_git(environment: Mapping[str, str]) -> dict[str, str]:
    """As variables: the programs that wait for no person and that git's configuration in variables names."""
    start = "GIT_CONFIG_KEY_"
    numbers = {key.lower(): name[len(start) :] for name, key in environment.items() if name.startswith(start)}
    values = {name: environment.get(f"GIT_CONFIG_VALUE_{numbers.get(key)}") for key, name in GIT_KEYS.items()}
    return {name: value for name, value in values.items() if value in QUIET}


def _proxy_passwords(environment: Mapping[str, str]) -> set[str]:
    """What the proxies of this machine know us by, as other variables may have it."""
    known = {environment.get(CREDENTIALS, "")} | {
        value.rpartition("@")[0].rpartition("//")[2]
        for name, value in environment.items()
        if "@" in value and name.lower().endswith("_proxy")
    }
    if not any(known):
        return set()
    # Imported here: most proxies have no password, and every start of a pen comes by.
    from base64 import b64encode
    from urllib.parse import unquote

    known |= {unquote(each) for each in known}
    whole = (b64encode(each.encode("utf-8", "surrogateescape")).decode().rstrip("=") for each in known)
    passwords = (each.partition(":")[2] for each in known)
    return {each for each in (*whole, *passwords) if len(each) >= _SHORTEST}


def _trust_every_owner(environment: dict[str, str]) -> None:
    """Git refuses repositories of another owner, for what their configuration runs. Here that is confined."""
    try:
        count = int(environment.get("GIT_CONFIG_COUNT") or 0)
    except ValueError:
        return  # git refuses such a count
    environment[f"GIT_CONFIG_KEY_{count}"] = "safe.directory"
    environment[f"GIT_CONFIG_VALUE_{count}"] = "*"
    environment["GIT_CONFIG_COUNT"] = str(count + 1)


def names_secret(name: str) -> bool:
    """Whether a variable's name says that its value is a secret."""
    return _matches(name, SECRET_WORDS)


def is_kept(name: str, rules: EnvironmentRules) -> bool:
    if _matches(name, rules.drop) or not name or "=" in name or name in READ_BY_SHELLS:
        return False
    return _matches(name, rules.keep) or _matches(name, NOT_SECRET) or not _matches(name, TAKEN)


def is_quiet(name: str, value: str, rules: EnvironmentRules) -> bool:
    """Whether a variable makes programs show a text at once, or take it as it is."""
    return value in QUIET and name.lower() in CALLED and not _matches(name, rules.drop)


@lru_cache(maxsize=4096)
def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return bool(patterns) and _sorted(patterns).match(name.lower())


class _Sorted(Struct, frozen=True):
    """Patterns by where their star is. One expression of them all takes 3 ms to compile, at every start."""

    exact: frozenset[str]
    starts: tuple[str, ...]
    ends: tuple[str, ...]
    parts: tuple[str, ...]
    framed: tuple[tuple[str, str], ...]
    """A start and an end, with a star between."""
    others: re.Pattern[str] | None

    def match(self, name: str) -> bool:
        return (
            name in self.exact
            or name.startswith(self.starts)
            or name.endswith(self.ends)
            or any(part in name for part in self.parts)
            or any(_is_framed(name, *frame) for frame in self.framed)
            or (self.others is not None and self.others.fullmatch(name) is not None)
        )


def _is_framed(name: str, start: str, end: str) -> bool:
    return len(name) >= len(start) + len(end) and name.startswith(start) and name.endswith(end)


@lru_cache(maxsize=64)
def _sorted(patterns: tuple[str, ...]) -> _Sorted:
    exact, starts, ends, parts, framed, others = [], [], [], [], [], []
    for pattern in map(str.lower, patterns):
        match pattern.split("*"):
            case _ if "?" in pattern or "[" in pattern:
                others.append(pattern)
            case [whole]:
                exact.append(whole)
            case ["", end]:
                ends.append(end)
            case [start, ""]:
                starts.append(start)
            case ["", part, ""]:
                parts.append(part)
            case [start, end]:
                framed.append((start, end))
            case _:
                others.append(pattern)
    rest = re.compile("|".join(map(translate, others))) if others else None
    return _Sorted(frozenset(exact), tuple(starts), tuple(ends), tuple(parts), tuple(framed), rest)
