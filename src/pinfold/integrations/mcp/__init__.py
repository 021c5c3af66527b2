"""An MCP server by the official SDK: the tools of `tools`, over one session, on stdio.

`server` speaks with the client, `call` is a tool's call at work, `elicitation` a question as a client's form,
`resources` what a client can read. `server_command` is about other MCP servers, which Pinfold wraps.
"""
