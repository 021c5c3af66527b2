"""Which of the host's variables a command sees. Pure.

Three kinds are taken: what names a secret, what makes a loader or an interpreter run something before the
program itself, and what leads to the machine's own agents and buses. Names are compared without regard to
case. `keep` and `drop` are the policy's, and may have `*`; `drop` is stronger.
"""

import re
from collections.abc import Mapping
from fnmatch import translate
from functools import lru_cache

from pinfold.model.policy import EnvironmentRules

SECRETS = (
    "*token*", "*secret*", "*passw*", "*passphrase*", "*credential*", "*api_key*", "*apikey*",
    "*access_key*", "*private_key*", "*_key", "*_pat", "*_dsn", "*_auth", "*cookie*", "*session_id*",
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
NOT_SECRET = ("tokenizers_parallelism", "git_author_*", "git_committer_*", "git_terminal_prompt")
TAKEN = (*SECRETS, *LOADERS, *AGENTS)


def scrub(
    environment: Mapping[str, str], rules: EnvironmentRules, *, network: bool, temporary: str | None
) -> dict[str, str]:
    """The command's environment."""
    kept = {name: value for name, value in environment.items() if is_kept(name, rules)}
    kept.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    if temporary:
        kept["TMPDIR"] = temporary
        # The home is read-only, and these would complain of it each time.
        kept.setdefault("XDG_CACHE_HOME", f"{temporary}/cache")
        kept.setdefault("npm_config_cache", f"{temporary}/cache/npm")
    kept.setdefault("LESSHISTFILE", "-")
    kept.setdefault("GIT_OPTIONAL_LOCKS", "0")
    kept.update(PINFOLD_PEN="1", PINFOLD_PEN_NETWORK=str(int(network)), IS_SANDBOX="1")
    return kept


def is_kept(name: str, rules: EnvironmentRules) -> bool:
    if _matches(name, rules.drop) or not name or "=" in name:
        return False
    return _matches(name, rules.keep) or _matches(name, NOT_SECRET) or not _matches(name, TAKEN)


@lru_cache(maxsize=4096)
def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return bool(patterns) and _compiled(patterns).fullmatch(name.lower()) is not None


@lru_cache(maxsize=64)
def _compiled(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(translate(pattern.lower()) for pattern in patterns))
