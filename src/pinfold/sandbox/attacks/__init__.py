"""Attacks on a pen from the inside, by the self-test: each a small function that tries one thing.

They run in the pen, as `python -I -S`, and import the standard library and `kernel` alone. What they are let
loose on (`World`) is made for them: a scratch workspace, home and neighbour, a process to be hurt, sockets to
be reached. INVARIANT: one that gets through does no harm to anything else, since the fence may have holes.
"""
