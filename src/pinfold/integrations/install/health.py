"""Whether the hooks in agents' configurations are asked, and still start a pinfold.

They name it by whole paths. One that was moved or deleted since leaves hooks that cannot start. An earlier
pinfold did not know of every tool, and wrote hooks that let a call pass where they cannot start. And agents
have switches that turn hooks off.
"""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence

from pinfold.diagnose.doctor import LayerReport, LayerState
from pinfold.integrations.hooks import AGENTS
from pinfold.integrations.install.agents import (
    MANAGED,
    MARK,
    AgentSetup,
    lines_of,
    managed_target_of,
    target_of,
)
from pinfold.integrations.install.jsonc import parse
from pinfold.integrations.install.mcp_servers import servers_file, servers_in
from pinfold.integrations.install.plan import text_of
from pinfold.integrations.install.switches import trouble_of
from pinfold.model.errors import PolicyError
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
    """The command lines in a file that start our hook."""
    text = read_text(file)
    return list(lines_of(parse(text, file).value)) if text and MARK in text else []


def _outdated(setup: AgentSetup, lines: list[str]) -> str:
    """Why hooks in a file have to be written anew; empty if they need not."""
    if absent := next(filter(None, map(_absent, lines)), ""):
        return f"{absent} is not there any more"
    text = read_text(setup.file) or ""
    if not all(str(entry.value.get("matcher", "")) in text for entry in setup.entries):
        return "they do not name every tool that is judged by now"
    wanted = [line for entry in setup.entries for line in lines_of(entry.value)]
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
