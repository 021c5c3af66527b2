"""Which system calls are closed to a pen, and the little program that tells the kernel so.

`profile` says it in English, `bpf` compiles it, `emulate` runs it without a kernel. All of it is pure;
`kernel.seccomp` installs it.
"""

PAIRS, STREAMS = "pen, unix pairs", "pen, unix streams"
"""What plans call the profiles: which unix sockets a command may make. The first is the stricter."""
