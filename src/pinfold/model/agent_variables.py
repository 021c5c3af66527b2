"""Variables of a process that an agent started, which need not be its person's.

Facts about agents: Gemini CLI reads `.env` of the directory it is started in, and Claude Code the `env` of
a project's `.claude/settings.json`. What is set there reaches hooks and commands. So a file of a project may
have set any of these, and no variable of such a process lets a command do more.
"""

from collections.abc import Mapping

OBEYED = (
    *("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "GEMINI_CLI_HOME", "GIT_CONFIG_GLOBAL"),
    *("GIT_CONFIG_SYSTEM", "GIT_TEMPLATE_DIR", "BASH_ENV", "ENV", "ZDOTDIR", "INPUTRC", "XDG_CONFIG_HOME"),
    *("PYTHONSTARTUP", "RIPGREP_CONFIG_PATH", "STARSHIP_CONFIG", "NPM_CONFIG_USERCONFIG", "PIP_CONFIG_FILE"),
    *("npm_config_userconfig", "DIRENV_CONFIG", "MISE_CONFIG_DIR", "DOCKER_CONFIG", "KUBECONFIG", "HGRCPATH"),
)
"""Each names a file, or a directory, of configuration by which programs run others."""
SSH_AGENT = "SSH_AUTH_SOCK"


def naming(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables that name files which programs obey, or an ssh agent: a sandbox has to know them all."""
    return {name: environ[name] for name in (*OBEYED, SSH_AGENT) if environ.get(name)}


class AgentVariables(dict[str, str]):
    """They choose settings only where that narrows, and lead neither settings nor state into a project."""
