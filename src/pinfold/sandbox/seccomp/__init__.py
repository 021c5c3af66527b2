"""The seccomp filter of a pen: which system calls it denies, and which the warden answers.

`profile` states the rules, `bpf` compiles them, `emulate` runs the result without a kernel. All three are
pure; `kernel.seccomp` installs the filter.
"""

PAIRS, STREAMS = "pen, unix pairs", "pen, unix streams"
"""The names of the profiles in plans: which unix sockets a command may make. The first is stricter."""
