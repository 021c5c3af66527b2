"""Whether the hooks in agents' configurations are asked, and still start a pinfold.

They name it by whole paths. One that was moved or deleted since leaves hooks that cannot start. An earlier
pinfold did not know of every tool, and wrote hooks that let a call pass where they cannot start. And agents
have switches that turn hooks off.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pinfold.diagnose.doctor import LayerReport, LayerState
from pinfold.integrations.hooks import AGENTS
from pinfold.integrations.install.agents import (
    MANAGED,
    PROGRAMS,
    AgentSetup,
    lines_in,
    lines_of,
    managed_target_of,
    target_of,
)
from pinfold.integrations.install.disabled_hooks import trouble_of
from pinfold.integrations.install.mcp_servers import servers_file, servers_in
from pinfold.integrations.install.plan import text_of
from pinfold.isolated import program_outside
from pinfold.model.errors import PolicyError
from pinfold.model.home import home_of
from pinfold.settings.files import read_text


def probe_hooks(environ: Mapping[str, str], projects: Sequence[str] = ()) -> Iterator[LayerReport]:
    """One row for each agent that has hooks of ours. `projects` are those whose settings count."""
    for agent in AGENTS:
        if report := probe_agent(agent, environ, projects):
            yield report
        yield from _probe_servers(agent, environ)


def _probe_servers(agent: str, environ: Mapping[str, str]) -> Iterator[LayerReport]:
    """The MCP servers that an install has wrapped, where Pinfold is not there any more."""
    found = servers_file(agent, environ)
    try:
        text = text_of(found.file)
        servers = servers_in(text, found) if text else ()
    except (PolicyError, ValueError):
        return  # the agent itself says what is wrong with its file
    gone = next((each for each in servers if each.is_ours and not os.path.exists(each.program)), None)
    if gone:
        said = f"{gone.program}, which starts `{gone.name}`, is not there any more"
        yield LayerReport(f"{agent} MCP servers", LayerState.NOT, said, f"pinfold install {agent}")


def probe_agent(agent: str, environ: Mapping[str, str], projects: Sequence[str]) -> LayerReport | None:
    """None if the agent has no hooks of ours."""
    name = f"{agent} hooks"
    try:
        users = _lines(target_of(agent, environ).file)
        managed = _lines(MANAGED[agent]) if agent in MANAGED else []
    except PolicyError as error:
        return LayerReport(name, LayerState.NOT, str(error), needed=False)
    if not users and not managed:
        return None
    setups = ((target_of(agent, environ), users, ""), *_managed(agent, managed))
    for setup, lines, option in setups:
        if lines and (said := _outdated(setup, lines)):
            sudo = "sudo " if option else ""
            return LayerReport(name, LayerState.NOT, said, f"{sudo}pinfold install {option}{agent}")
    trouble = trouble_of(agent, environ, projects, bool(managed))
    if trouble is None:
        return LayerReport(name, LayerState.READY, "what they start is there")
    state = LayerState.NOT if trouble.is_off else LayerState.PARTLY
    return LayerReport(name, state, trouble.message, trouble.fix, needed=trouble.is_off)


class FoundAgent(NamedTuple):
    """An agent on this machine, and what an install gives it."""

    agent: str
    found: tuple[str, ...]
    """Its programs and its directory, as far as they are there."""
    file: str
    """Where the hooks go."""
    commands: tuple[str, ...]
    """The slash commands."""
    notes: tuple[str, ...]
    is_installed: bool
    trouble: str
    """Why the hooks that are there do not hold; empty if they do."""


def found_agents(environ: Mapping[str, str], cwd: str) -> tuple[FoundAgent, ...]:
    """Those whose program is on the PATH outside of the project, or whose directory is in the home."""
    return tuple(_found_agents(environ, cwd))


def _found_agents(environ: Mapping[str, str], cwd: str) -> Iterator[FoundAgent]:
    for agent in AGENTS:
        setup = target_of(agent, environ)
        programs = (program_outside(program, environ, (cwd,)) for program in PROGRAMS[agent])
        home = _own_directory(setup.file, home_of(environ))
        found = (*filter(None, programs), *([home] if os.path.isdir(home) else ()))
        if not found:
            continue
        report = probe_agent(agent, environ, (cwd,))
        names = tuple(each.name for each in setup.commands)
        trouble = report.detail if report and report.state is not LayerState.READY else ""
        if trouble and report and report.fix:
            trouble += f"; to fix it: {report.fix}"
        yield FoundAgent(agent, found, setup.file, names, setup.notes, report is not None, trouble)


def _own_directory(file: str, home: str) -> str:
    """The agent's directory that a file of its settings lies in."""
    directory = os.path.dirname(file)
    while os.path.basename(directory) in ("hooks", "plugins", "extensions"):
        directory = os.path.dirname(directory)
    return directory if directory != home else file


def hook_notices(environ: Mapping[str, str], projects: Sequence[str]) -> tuple[str, ...]:
    """What a person should know of the hooks, a line for each agent whose hooks are not in order."""
    return tuple(
        f"{each.name}: {each.detail}" + (f"; to fix it: {each.fix}" if each.fix else "")
        for each in probe_hooks(environ, projects)
        if each.state is not LayerState.READY
    )


def _managed(agent: str, lines: list[str]) -> Iterator[tuple[AgentSetup, list[str], str]]:
    if lines:
        yield managed_target_of(agent), lines, "--managed "


def _lines(file: str) -> list[str]:
    return list(lines_in(read_text(file) or "", file))


def _outdated(setup: AgentSetup, lines: list[str]) -> str:
    """Why hooks in a file have to be written anew; empty if they need not."""
    if absent := next(filter(None, map(_absent, lines)), ""):
        return f"{absent} is not there any more"
    text = read_text(setup.file) or ""
    if setup.text and text != setup.text:
        return "an earlier pinfold wrote them"
    hooks = [entry.value for entry in setup.entries if not isinstance(entry.value, str)]
    if not all(str(hook.get("matcher", "")) in text for hook in hooks):
        return "they do not name every tool that is judged by now"
    wanted = [line for hook in hooks for line in lines_of(hook)]
    if sum(map(_is_guarded, lines)) < sum(map(_is_guarded, wanted)):
        return "an earlier pinfold wrote them: a call passes if they cannot start"
    return ""


def _is_guarded(line: str) -> bool:
    return line.startswith("/bin/sh -c ")


def _absent(line: str) -> str:
    """What a hook's line starts and is not there; the line itself, if it is none of ours any more."""
    try:
        words = shlex.split(line)
    except ValueError:
        return line
    return next((word for word in words if word.startswith("/") and not os.path.exists(word)), "")
