"""Sessions for programs of any language: JSON-RPC 2.0, one object a line, on stdio or a unix socket.

`messages` is what may be said, `lines` carries it, `connection` answers one client, by `calls`, and
`listener` waits for many. It decides nothing: every request becomes a session's own, with the same decisions,
questions and journal as the library's. docs/service.md is for authors of clients; `client` is one, and
`remote_session` has what it opens.
"""
