"""`pinfold import AGENT`: what a person has settled in an agent's own settings, in pinfold's words.

Each agent's module reads that agent's files into findings, which are pure values; `merge` makes of them an
edit of the user's settings file. INVARIANT: nothing is widened silently. What would let more through here
than it did there is left out unless it is asked for, and everything without an equivalent is named with the
reason.

Only the files of the user are read: a repository must not configure its own sandbox.
"""
