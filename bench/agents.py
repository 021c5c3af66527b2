"""How long a command takes behind real agents: bare, in the agent's own sandbox, and with Pinfold.

Run as root: `.venv/bin/python -m bench.agents [--rounds N] [--agents claude-code codex gemini]`. `make
agents` installs the agents. A stand-in for the model asks for `true` again and again; what is measured is
the time from its words to the result. The contenders take turns, each with a home of its own, in a network
that has nothing but loopback. `eight at once` is one step of eight calls.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from tests.agents.model_stub import Call, Model
from tests.agents.probes.turns import PROGRAMS, TOOLS, installed, program_of, started_by
from tests.probe_module import in_own_network

AIMS = {"claude-code": 25, "codex": 20, "gemini": 30}
"""Milliseconds that Pinfold may add to a `true`."""
STEPS, AT_ONCE = 12, 8
OWN = ("claude-code", "codex")
"""Agents with a sandbox of their own."""
CLAUDE_SANDBOX = {"sandbox": {"enabled": True, "autoAllowBashIfSandboxed": True}}


class Contender(NamedTuple):
    agent: str
    kind: str
    """`bare`, `own` or `pinfold`."""
    home: Path

    @property
    def environ(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        return {**kept, "HOME": str(self.home)}


@contextmanager
def homes(agents: list[str]) -> Iterator[list[Contender]]:
    with tempfile.TemporaryDirectory(dir="/var/lib", prefix="pinfold-bench-") as top:
        found = []
        for agent in agents:
            for kind in ("bare", "own", "pinfold"):
                if kind != "own" or agent in OWN:
                    each = Contender(agent, kind, Path(top, f"{agent}-{kind}"))
                    prepare(each)
                    found.append(each)
        yield found


def prepare(contender: Contender) -> None:
    (contender.home / "project").mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet"], cwd=contender.home / "project", check=True)
    os.environ["HOME"] = str(contender.home)
    os.environ["PYTHONPATH"] = f"{Path.cwd()}/src"
    installed(contender.agent, with_hooks=contender.kind == "pinfold")
    if contender.kind == "own" and contender.agent == "claude-code":
        file = contender.home / ".claude/settings.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(CLAUDE_SANDBOX))


def conversation(contender: Contender, at_once: int = 1) -> list[float]:
    """Seconds of each step."""
    tool, key = TOOLS[contender.agent]
    # Gemini CLI ends a conversation that makes the same call five times.
    steps = [[Call(tool, {key: f"true {step}"})] * at_once for step in range(STEPS)]
    model = Model(*steps)
    try:
        words, more = started_by(contender.agent, model.address)
        if contender.agent == "codex" and contender.kind == "own":
            words[words.index("danger-full-access")] = "workspace-write"
        if contender.agent == "claude-code" and contender.kind == "bare":
            words += ["--dangerously-skip-permissions"]
        done = subprocess.run(
            [PROGRAMS[contender.agent], *words],
            cwd=contender.home / "project",
            env={**contender.environ, **more, "IS_SANDBOX": "1"}
            if contender.kind == "bare"
            else {**contender.environ, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if len(model.heard) != STEPS * at_once:
            heard = f"{len(model.heard)} results, {model.heard[-2:]}"
            raise SystemExit(f"{contender.agent} {contender.kind}: {done.stdout}{done.stderr}{heard}")
        return model.seconds
    finally:
        model.close()


def least() -> float:
    """Seconds of the least that a process in Python takes."""
    taken = []
    for _ in range(20):
        began = perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        taken.append(perf_counter() - began)
    return statistics.median(taken)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--agents", nargs="*", default=[*AIMS], choices=[*AIMS])
    args = parser.parse_args()
    for agent in args.agents:
        PROGRAMS[agent] = program_of(agent) or sys.exit(f"there is no {agent}; run `make agents`")
    in_own_network()
    print(f"python -I -S -c pass: {least() * 1e3:.1f} ms")
    with homes(args.agents) as contenders:
        taken: dict[Contender, list[float]] = {each: [] for each in contenders}
        together: dict[Contender, list[float]] = {each: [] for each in contenders}
        for each in contenders:
            conversation(each)  # the service, caches and first starts
        for _ in range(args.rounds):
            for each in contenders:
                taken[each] += conversation(each)[1:]
                if each.agent == "claude-code":
                    together[each] += conversation(each, AT_ONCE)[1:]
    report(taken, together)
    return 0


def report(taken: dict[Contender, list[float]], together: dict[Contender, list[float]]) -> None:
    bare: dict[str, float] = {}
    for each, times in taken.items():
        middle = statistics.median(times) * 1e3
        bare.setdefault(each.agent, middle)
        aim = f"   (aim +{AIMS[each.agent]})" if each.kind == "pinfold" else ""
        print(f"{each.agent:12} {each.kind:8} {middle:7.1f} ms   +{middle - bare[each.agent]:5.1f}{aim}")
        if together[each]:
            eight = statistics.median(together[each]) * 1e3
            first = bare.setdefault(f"{each.agent} eight", eight)
            print(f"{'':12} eight at once {eight:7.1f} ms   {eight / first:.2f}x")


if __name__ == "__main__":
    sys.exit(main())
