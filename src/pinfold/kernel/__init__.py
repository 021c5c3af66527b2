"""Typed wrappers over raw system calls: the only ctypes of the tree, so the dangerous surface is one `ls`.

A module holds the calls of one subject, with the kernel's own names for constants, and decides nothing:
what is called, and in which order, is the sandbox's. Every call raises OSError with the errno and the
call's name, or returns what the kernel returned.

Everything here is imported by processes started with `python -I -S`: standard library only, and cheaply.
"""
