"""The agents people already use, behind the fence: their words in, a session's answers out.

Stands above `session` and is imported by the command line alone.
"""
