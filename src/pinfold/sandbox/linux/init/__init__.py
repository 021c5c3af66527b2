"""A session's pid 1: it holds the session's namespaces, and ends the processes of one command."""
