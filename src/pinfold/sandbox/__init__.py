"""A policy becomes a sandbox that the kernel enforces: planned, fitted to the machine, built and kept.

The plan, its fitting and the seccomp profile are pure; what acts lies in `linux/`.
"""
