"""Whether the hooks in agents' configurations still start a pinfold.

They name it by whole paths. One that was moved or deleted since leaves hooks that cannot start, and most
agents let a call pass then, unfenced. Nor is a tool held that an earlier pinfold did not know of.
"""

import os
import shlex
from collections.abc import Iterator, Mapping

from pinfold.diagnose.doctor import LayerReport, LayerState
from pinfold.integrations.hooks import AGENTS
from pinfold.integrations.install.agents import MARK, lines_of, target_of
from pinfold.integrations.install.jsonc import parse
from pinfold.integrations.install.mcp_servers import servers_file, servers_in
from pinfold.integrations.install.plan import text_of
from pinfold.model.errors import PolicyError
from pinfold.settings.files import read_text


def probe_hooks(environ: Mapping[str, str]) -> Iterator[LayerReport]:
    """One standing for each agent that has hooks of ours."""
    for agent in AGENTS:
        target = target_of(agent, environ)
        name, file = f"{agent} hooks", target.file
        try:
            text = read_text(file)
            lines = list(lines_of(parse(text, file).value)) if text and MARK in text else []
        except PolicyError as error:
            yield LayerReport(name, LayerState.NOT, str(error), needed=False)
            continue
        if absent := next(filter(None, map(_absent, lines)), ""):
            yield LayerReport(
                name, LayerState.NOT, f"{absent} is not there any more", f"pinfold install {agent}"
            )
        elif lines and not all(str(entry.value.get("matcher", "")) in str(text) for entry in target.entries):
            said = "they do not name every tool that is judged by now"
            yield LayerReport(name, LayerState.NOT, said, f"pinfold install {agent}")
        elif lines:
            yield LayerReport(name, LayerState.READY, "what they start is there")
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


def _absent(line: str) -> str:
    """What a hook's line starts and is not there; the line itself, if it is none of ours any more."""
    try:
        words = shlex.split(line)
    except ValueError:
        return line
    return next((word for word in words if word.startswith("/") and not os.path.exists(word)), "")
