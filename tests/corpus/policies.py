"""Settings that lines are judged by."""

READ_ONLY = {
    "mode": "use_allowlist",
    "sandbox": {"enabled": False},
    "commands": {
        "allow": [
            *["ls", "cat", "head", "tail", "grep", "rg", "find", "wc", "sort", "echo", "pwd", "stat", "diff"],
            "sed -n",
            *(f"git {verb}" for verb in ("status", "log", "diff", "show")),
        ],
        "deny": ["rm -rf", "curl", "git push"],
    },
    "filesystem": {"hide": [".env"]},
}
"""Programs that only read, some that are denied, and no fence that would hold the rest."""
