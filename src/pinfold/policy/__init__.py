"""What is decided, and what a policy means: levels, meet, rules, `decide`. Pure.

Nothing here knows a clock, a socket, a process, the disk or the environment; what is true of them comes in
as `model.facts.Facts`. Imports only `model`. Start reading at `decide`.
"""
