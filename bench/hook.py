"""How long an agent waits for a hook, against a bare interpreter in the same run.

Run: `.venv/bin/python -m bench.hook [--rounds N]`. In turns, since a machine changes its pace; the ratio is
to `python -I -S -c pass`, which is the least that any hook in Python could cost.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from pinfold.integrations.install.command import hook_words

AIM = 8.0
CALLS = {
    "a plain command": ("claude-code", "PreToolUse", "Bash", {"command": "npm test"}),
    "a command for the parser": (
        "claude-code",
        "PreToolUse",
        "Bash",
        {"command": 'for f in *; do a "$f"; done'},
    ),
    "an edit": ("claude-code", "PreToolUse", "Edit", {"file_path": "src/a.py", "old_string": "a"}),
    "a tool that is not judged": ("claude-code", "PreToolUse", "TodoWrite", {}),
    "codex": ("codex", "PreToolUse", "Bash", {"command": "npm test"}),
    "gemini": ("gemini", "BeforeTool", "run_shell_command", {"command": "npm test"}),
}


def taken(words: list[str], data: bytes, environment: dict[str, str]) -> float:
    start = perf_counter()
    run = subprocess.run(words, input=data, capture_output=True, check=False, env=environment)
    assert run.returncode == 0, run.stderr
    return perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as home:
        project = Path(home, "project")
        Path(project, ".git").mkdir(parents=True)
        environment = {"HOME": home, "PATH": os.environ["PATH"]}
        works = {"python -I -S -c pass": ([sys.executable, "-I", "-S", "-c", "pass"], b"")}
        for name, (agent, event, tool, given) in CALLS.items():
            payload = {
                "hook_event_name": event,
                "cwd": str(project),
                "tool_name": tool,
                "tool_input": given,
            }
            works[name] = ([*hook_words(agent)], json.dumps(payload).encode())
        times: dict[str, list[float]] = {name: [] for name in works}
        for _ in range(rounds):
            for name, (words, data) in works.items():
                times[name].append(taken(words, data, environment))
    medians = {name: statistics.median(each) for name, each in times.items()}
    bare = medians["python -I -S -c pass"]
    for name, each in medians.items():
        print(f"{name:26} {each * 1e3:8.2f} ms   {each / bare:5.2f}x   (aim {AIM:g}x)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
