"""The host's side of a sandbox: the user's own process, which has threads and never forks."""
