"""Which MCP tool a name stands for. Pure.

Facts about MCP tools: `mcp__SERVER__TOOL`, `mcp_SERVER_TOOL`, or `MCP:TOOL`, which leaves the server open.
Where SERVER or TOOL has the separator in it, the name can be read in several ways; every one of them must be
allowed.
"""

from pinfold.integrations.hooks.hook_call import UnjudgedError
from pinfold.model.request import CallTool

MOST_READINGS = 16


def mcp_calls(tool: str, server: str = "") -> tuple[CallTool, ...]:
    """The ways in which a tool's name can be read as one of an MCP server."""
    for head, mark in (("mcp__", "__"), ("mcp_", "_"), ("MCP:", ":")):
        if not tool.startswith(head):
            continue
        rest = tool.removeprefix(head)
        if server:
            return (CallTool(server, rest.removeprefix(f"{server}{mark}")),)
        parts = rest.split(mark)
        cuts = range(1, len(parts))
        if len(cuts) > MOST_READINGS:
            raise UnjudgedError(f"`{tool}` can be read in too many ways")
        found = (CallTool(mark.join(parts[:cut]), mark.join(parts[cut:])) for cut in cuts)
        return tuple(found) or (CallTool("", rest),)
    return ()
