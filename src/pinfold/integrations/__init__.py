"""The agents people already use, in the sandbox: their words in, a session's answers out.

Each face is thin: it speaks one agent's language to a session.
"""
