"""The attacks of the self-test: each is a small function that tries one thing from inside a pen.

They run in the pen, as `python -I -S`, and import the standard library and `kernel` alone. Their targets
(`Targets`) are made for them: a scratch workspace, home and neighbour directory, a process to attack, sockets
to reach. INVARIANT: an attack that succeeds harms nothing else, since the sandbox may have holes.
"""
