"""Pinfold's tools for LangGraph, or anything else that takes LangChain's tools: pip install langchain-core.

With LangGraph: create_react_agent(model, tools(session)).
"""

import json
import sys
from functools import partial
from typing import Any

from langchain_core.tools import StructuredTool

import pinfold
from pinfold.integrations.tools import TOOLS, Tool, use


def tools(session: pinfold.Session) -> list[StructuredTool]:
    return [
        StructuredTool.from_function(
            partial(_used, tool, session),
            name=tool.name,
            description=tool.description,
            args_schema=tool.schema,
        )
        for tool in TOOLS.values()
    ]


def _used(tool: Tool, session: pinfold.Session, **arguments: Any) -> str:
    outcome = use(tool, session, arguments, lambda _: None)
    return f"error: {outcome.text}" if outcome.is_error else outcome.text


if __name__ == "__main__":
    with pinfold.Session(sys.argv[1:] or ["."]) as session:
        by_name = {tool.name: tool for tool in tools(session)}
        print(by_name["execute_command"].invoke({"command": "echo hello"}))
        print(by_name["read_file"].invoke({"path": "/etc/passwd"}))
        print(json.dumps(sorted(by_name)))
