"""Kills a part of a running conversation, at a random moment, again and again.

Each round has an agent of its own, which runs a line by a real hook and client, with a service that the hook
starts. After the kill no command has run outside the sandbox, none has run twice, the next line of the
conversation works, and with the agent's end nothing of it is left. In an empty directory beside a `home`:
`python -m tests.service.probes.kills COUNT [SEED]`.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pinfold.integrations.install.agents import hook_words
from pinfold.service import local_socket as local
from tests.patience import wait_until
from tests.probe_module import SKIPPED
from tests.processes import is_alive, processes_of, status_of
from tests.service.probes.conversations import CANNOT, Ended, agent_program, environ, payload, said_of

MARK = "PINFOLD_TEST_KILLS"
TARGETS = ("service", "client", "agent", "keeper", "helper")
LONGEST = 0.4
"""Seconds after which a kill comes at the latest; a line takes about as long."""


class Agent:
    """A program that runs one thing after another, and can be killed meanwhile."""

    def __init__(self, variables: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            agent_program(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=variables,
            start_new_session=True,
        )

    def begin(self, words: tuple[str, ...], stdin: str = "") -> None:
        assert self.process.stdin
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps({"words": words, "stdin": stdin}) + "\n")
            self.process.stdin.flush()

    def end(self) -> Ended | None:
        """How what it began has ended; None if the agent has ended before."""
        assert self.process.stdout
        told = self.process.stdout.readline()
        return Ended(*json.loads(told)) if told.endswith("\n") else None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin and self.process.stdout
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()


class Rounds:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.environ = environ(**{MARK: str(os.getpid())})
        self.counts: Counter[str] = Counter()

    def service(self) -> int:
        """The service's process; 0 if there is none."""
        try:
            connection = local.connect(local.socket_path(self.environ))
        except OSError:
            return 0
        assert connection
        with_pid = local.peer_of(connection)[0]
        connection.close()
        return with_pid

    def victims(self, target: str, agent: Agent) -> list[int]:
        if target == "agent":
            return [agent.process.pid]
        if target == "client":
            return [pid for pid in processes_of(agent.process.pid) if b"--run" in _words(pid)]
        if not (service := self.service()):
            return []
        if target == "service":
            return [service]
        names = {pid: status_of(pid).name for pid in processes_of(service)[1:]}
        if target == "keeper":
            return [pid for pid, name in names.items() if name == "pinfold-keeper"]
        return [pid for pid, name in names.items() if name.startswith("pinfold-")]

    def first(self) -> None:
        """A line without a kill: it skips the probe where there is no sandbox."""
        agent = Agent(self.environ)
        try:
            self._next(agent, "first", -1, "nothing")
        finally:
            agent.kill()

    def round(self, number: int) -> None:
        agent = Agent(self.environ)
        conversation, target = f"c{number}", self.random.choice(TARGETS)
        line = (
            f"echo {number}:$PINFOLD_PEN >> ran; touch ~/outside-{number};"
            f" (exec -a left-{number} sleep 600) > /dev/null 2>&1 &"
            f" sleep {self.random.random() * LONGEST:.3f}; echo ended"
        )
        after, in_hook = self.random.random() * LONGEST, self.random.random() < 0.2
        try:
            self._line(agent, conversation, line, target, after, in_hook)
            if agent.process.poll() is not None:
                agent.kill()
                agent = Agent(self.environ)
            self._next(agent, conversation, number, target)
            assert not (Path.home() / f"outside-{number}").exists(), target
        finally:
            agent.kill()
        wait_until(lambda: not _running(b"left-%d\0" % number))
        ran = Path("ran").read_text().split() if Path("ran").exists() else []
        own = [each for each in ran if each.startswith(f"{number}:")]
        assert own in ([], [f"{number}:1"]), (target, own)
        self.counts[f"{target}, {'not begun' if not own else 'begun'}"] += 1

    def _line(
        self, agent: Agent, conversation: str, line: str, target: str, after: float, in_hook: bool
    ) -> None:
        """One line, from its hook to its end, with a kill in either."""
        agent.begin(hook_words("claude-code"), payload(line, conversation))
        if in_hook:
            self._kill(agent, target, after)
        said = agent.end()
        if said is None:
            return
        agent.begin(("bash", "-c", said_of(said.out, line).line))
        if not in_hook:
            self._kill(agent, target, after)
        agent.end()

    def _kill(self, agent: Agent, target: str, after: float) -> None:
        time.sleep(after)
        if victims := self.victims(target, agent):
            with suppress(ProcessLookupError):
                os.kill(self.random.choice(victims), signal.SIGKILL)
            if target == "agent":
                agent.process.wait()
        else:
            self.counts[f"{target}, not there yet or any more"] += 1

    def _next(self, agent: Agent, conversation: str, number: int, target: str) -> None:
        line = f"echo next-{number}:$PINFOLD_PEN"
        agent.begin(hook_words("claude-code"), payload(line, conversation))
        said = agent.end()
        assert said, target
        agent.begin(("bash", "-c", said_of(said.out, line).line))
        ended = agent.end()
        if number < 0 and ended and CANNOT in ended.err:
            print(ended.err)
            sys.exit(SKIPPED)
        assert ended and ended.code == 0 and ended.out == f"next-{number}:1\n", (target, ended)

    def close(self) -> None:
        """Ends the service: then nothing that had our mark is left."""
        if service := self.service():
            os.kill(service, signal.SIGKILL)
        mark = f"{MARK}={os.getpid()}".encode()
        wait_until(lambda: not [pid for pid in _all() if mark in _file(pid, "environ").split(b"\0")])


def _all() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _file(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""  # it has ended, or is closed to this user


def _words(pid: int) -> list[bytes]:
    return _file(pid, "cmdline").split(b"\0")


def _running(start: bytes) -> list[int]:
    return [pid for pid in _all() if _file(pid, "cmdline").startswith(start) and is_alive(pid)]


def kills(count: int = 12, seed: int = 0, tell: Callable[[str], object] = lambda _: None) -> Counter[str]:
    seed = seed or random.randrange(1 << 30)
    print(f"seed {seed}", flush=True)
    rounds = Rounds(seed)
    try:
        rounds.first()
        for number in range(count):
            rounds.round(number)
            tell(f"{number + 1} of {count}")
    finally:
        rounds.close()
    return rounds.counts


if __name__ == "__main__":
    if sys.argv[1] == "kills":
        kills()
    else:
        count, seed = (*map(int, sys.argv[1:]), 0)[:2]
        for what, times in sorted(kills(count, seed, print).items()):
            print(f"{times:4} {what}")
