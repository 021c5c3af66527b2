"""How long an agent waits for a hook, and a person for `pinfold run`, against a bare interpreter.

Run: `.venv/bin/python -m bench.hook [--rounds N]`. In turns, since a machine changes its pace; the ratio is
to `python -I -S -c pass`, which is the least that any program in Python could cost, and for a cold `pinfold
run` to `python -I -c pass`. The processor's time is told beside the clock's: on a busy machine it is the
steadier one. It is that of the process alone, and not of the service.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter, sleep
from typing import NamedTuple

from pinfold.integrations.hooks import start
from pinfold.integrations.install.agents import hook_words
from pinfold.isolated import COLD_ENTRY, isolated_python, own_command
from pinfold.service.local_socket import SWITCH, socket_path

COLD, WARM = 8.0, 1.5
"""The aims of a hook: without the service, and with it."""
COLD_RUN, WARM_RUN = 6.0, 1.6
"""The aims of `pinfold run -c true`."""
PAUSE = 0.3
"""Seconds between two rounds: people and agents do not run commands without one."""
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


BARE, ISOLATED = "python -I -S -c pass", "python -I -c pass"


class Work(NamedTuple):
    words: tuple[str, ...]
    data: bytes = b""
    environment: Mapping[str, str] = {}
    aim: float = 1.0
    than: str = BARE
    cwd: str | None = None


def taken(work: Work) -> tuple[float, float]:
    """Seconds by the clock and of the processor."""
    start, before = perf_counter(), _processor()
    run = subprocess.run(
        work.words,
        input=work.data,
        capture_output=True,
        check=False,
        env=dict(work.environment),
        cwd=work.cwd,
    )
    assert run.returncode == 0, run.stderr
    return perf_counter() - start, _processor() - before


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def payload(call: str, project: str) -> bytes:
    _, event, tool, given = CALLS[call]
    return json.dumps(
        {"hook_event_name": event, "cwd": project, "tool_name": tool, "tool_input": given}
    ).encode()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as home:
        project = os.path.join(home, "project")
        os.makedirs(os.path.join(project, ".git"))
        warm = {"HOME": home, "PATH": os.environ["PATH"]}
        cold = {**warm, SWITCH: "0"}
        works = {
            BARE: Work((sys.executable, "-I", "-S", "-c", "pass")),
            ISOLATED: Work((sys.executable, "-I", "-c", "pass")),
        }
        for name, (agent, *_) in CALLS.items():
            works[name] = Work(hook_words(agent), payload(name, project), cold, COLD)
        first = next(iter(CALLS))
        works["with the service"] = Work(hook_words("claude-code"), payload(first, project), warm, WARM)
        line = ("run", "-c", "true")
        asked = isolated_python(os.path.abspath(start.__file__), "--pinfold")
        alone = own_command(*line, entry=COLD_ENTRY)
        works["pinfold run, alone"] = Work(alone, b"", cold, COLD_RUN, ISOLATED, project)
        works["pinfold run"] = Work((*asked, *line), b"", warm, WARM_RUN, BARE, project)
        named = (*asked, "run", "--session", "bench", "-c", "true")
        works["pinfold run --session"] = Work(named, b"", warm, WARM_RUN, BARE, project)
        service = subprocess.Popen(own_command("serve", "--agents"), env=warm, stdin=subprocess.DEVNULL)
        try:
            while not Path(socket_path(warm)).exists():
                sleep(0.05)
            times = {name: list[tuple[float, float]]() for name in works}
            for _ in range(rounds):
                for name, work in works.items():
                    times[name].append(taken(work))
                sleep(PAUSE)
        finally:
            service.kill()
            service.wait()
    tell(works, times)
    return 0


def tell(works: Mapping[str, Work], times: Mapping[str, list[tuple[float, float]]]) -> None:
    medians = {
        name: [statistics.median(each) for each in zip(*of, strict=True)] for name, of in times.items()
    }
    for name, (clock, processor) in medians.items():
        bare = medians[works[name].than]
        print(
            f"{name:26} {clock * 1e3:8.2f} ms {clock / bare[0]:6.2f}x"
            f"   processor {processor * 1e3:7.2f} ms {processor / bare[1]:6.2f}x   (aim {works[name].aim:g}x)"
        )


if __name__ == "__main__":
    sys.exit(main())
