"""Which system calls are closed to a pen, and the little program that tells the kernel so.

`profile` says it in English, `bpf` compiles it, `emulate` runs it without a kernel. All of it is pure;
`kernel.seccomp` installs it.
"""
