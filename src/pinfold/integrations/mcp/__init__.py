"""An MCP server by the official SDK: the tools of `tools`, over one session, on stdio.

`server` speaks with the client, `call` is a tool's call at work, `forms` a question as a client's form.
"""
