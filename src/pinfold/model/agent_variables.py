"""Variables of a process that an agent started, which need not be its person's.

Facts about agents: Gemini CLI reads `.env` of the directory it is started in, and Claude Code the `env` of
a project's `.claude/settings.json`. What is set there reaches hooks and commands. So a file of a project may
have set any of these, and no variable of such a process lets a command do more.
"""


class AgentVariables(dict[str, str]):
    """They choose settings only where that narrows, and lead neither settings nor state into a project."""
