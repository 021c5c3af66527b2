"""Programs that are asked before each command.

A hook gets Cursor's JSON on standard input and answers with JSON on standard output. Only a clear
answer counts: a crash, a time-out, too much output or nonsense is a no, and no output with exit status 0
is no opinion. What the answers are worth is `policy.steps`' business; a hook's allow lifts no rule.

All hooks are asked at once. The processes that a hook started end with it.
"""

import os
import signal
from collections.abc import Callable, Mapping
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from msgspec import DecodeError, Struct, ValidationError, json

from pinfold.model.decision import Verdict
from pinfold.model.facts import HookAnswer
from pinfold.model.home import expanded
from pinfold.model.load_structs import ready
from pinfold.model.settings import Hook, HookSettings

if TYPE_CHECKING:
    from subprocess import Popen

LARGEST_ANSWER = 1_000_000
LONGEST_COMPLAINT = 200

awaited: list[str] = []
"""The hooks that have not answered yet, in this process: a person may want to know what takes so long."""


class HookQuestion(Struct, frozen=True):
    """What a hook reads on its standard input, under Cursor's names."""

    conversation_id: str
    generation_id: str
    model: str
    command: str
    cwd: str
    sandbox: bool
    hook_event_name: str = "beforeShellExecution"


class _HookReply(Struct, frozen=True):
    permission: Verdict | None = None
    user_message: str = ""
    agent_message: str = ""


class _Trouble(Exception):  # noqa: N818 - becomes a denial, never raised further
    """Why a hook has no answer."""


def ask_hooks(
    question: HookQuestion, settings: HookSettings, home: str, environ: Mapping[str, str]
) -> tuple[HookAnswer, ...]:
    """What each hook says, those without an opinion left out. `environ` is what hooks are started with."""
    if not settings.before_command:
        return ()
    try:
        text = json.encode(question)
    except UnicodeEncodeError:
        # Bytes that were not UTF-8 are lone surrogates in the line, which JSON cannot carry.
        why = "the line is not valid UTF-8, so it could not be asked"
        return tuple(_denial(hook, why) for hook in settings.before_command)
    deadline = monotonic() + settings.timeout
    asked = [(hook, _start(hook, text, home, environ)) for hook in settings.before_command]
    answers = _at_once(
        [partial(_answer, hook, started, deadline, settings.timeout) for hook, started in asked]
    )
    return tuple(answer for answer in answers if answer)


def _at_once(waits: "list[Callable[[], HookAnswer | None]]") -> list[HookAnswer | None]:
    """Each on a thread of its own, so that a slow hook takes no time from the others."""
    if len(waits) == 1:
        return [waits[0]()]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(waits)) as threads:
        return [waiting.result() for waiting in [threads.submit(wait) for wait in waits]]


def _start(hook: Hook, question: bytes, home: str, environ: Mapping[str, str]) -> "Callable[[float], bytes]":
    """Starts a hook; what is returned waits for its answer until a deadline."""
    # Imported here: most lines have no hooks, and this module is on the way of every cold start.
    import subprocess

    program = expanded(hook.command[0], home)
    if not os.path.isabs(program):
        # Relative to what? An agent can write to most directories that it might be.
        return _failing("a hook is given by its whole path")
    try:
        process = subprocess.Popen(
            [program, *hook.command[1:]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=home,
            env=environ,
            start_new_session=True,
        )
    except OSError as error:
        return _failing(f"it could not be started: {error.strerror}")
    return lambda deadline: _converse(process, question, deadline)


def _failing(why: str) -> Callable[[float], bytes]:
    def fail(_: float) -> bytes:
        raise _Trouble(why)

    return fail


def _converse(process: "Popen[bytes]", question: bytes, deadline: float) -> bytes:
    from selectors import EVENT_READ, EVENT_WRITE, PollSelector

    assert process.stdin and process.stdout and process.stderr  # noqa: S101 - all three are pipes
    said = {process.stdout: bytearray(), process.stderr: bytearray()}
    with process, PollSelector() as selector:
        try:
            for pipe in said:
                selector.register(pipe, EVENT_READ, pipe)
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, EVENT_WRITE, process.stdin)
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - monotonic()))
                if not ready:
                    raise TimeoutError
                for key, _ in ready:
                    pipe = key.data
                    if pipe is process.stdin:
                        question = _told(process.stdin.fileno(), question)
                        done = not question
                    else:
                        piece = os.read(key.fd, 1 << 16)
                        said[pipe] += piece
                        done = not piece
                        if len(said[pipe]) > LARGEST_ANSWER:
                            raise _Trouble("it says too much")
                    if done:
                        selector.unregister(pipe)
                        pipe.close()
            process.wait(max(0.0, deadline - monotonic()))
        finally:
            _end_group(process.pid)
    if process.returncode != 0:
        raise _Trouble(_failure(process.returncode, bytes(said[process.stderr])))
    return bytes(said[process.stdout])


def _told(descriptor: int, question: bytes) -> bytes:
    """Writes the rest of the question; a hook that closes its input has read all it wants."""
    try:
        return question[os.write(descriptor, question) :]
    except BrokenPipeError:
        return b""


def _end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _failure(status: int, complaint: bytes) -> str:
    how = f"it was ended by signal {-status}" if status < 0 else f"it failed with exit status {status}"
    lines = complaint.decode("utf-8", "replace").strip().splitlines()
    return f"{how}: {lines[-1][:LONGEST_COMPLAINT]}" if lines else how


def _answer(
    hook: Hook, started: Callable[[float], bytes], deadline: float, timeout: float
) -> HookAnswer | None:
    from subprocess import TimeoutExpired

    awaited.append(_name(hook))
    try:
        answer = _understood(started(deadline))
    except (TimeoutError, TimeoutExpired):
        return _denial(hook, f"it did not answer within {timeout:g} s")
    except _Trouble as trouble:
        return _denial(hook, str(trouble))
    finally:
        awaited.remove(_name(hook))
    if answer.permission is None:
        return None
    return HookAnswer(
        _name(hook), answer.permission, hook.origin, answer.user_message or answer.agent_message
    )


def _denial(hook: Hook, why: str) -> HookAnswer:
    return HookAnswer(_name(hook), Verdict.DENY, hook.origin, why)


def _name(hook: Hook) -> str:
    return " ".join(hook.command)


def _understood(output: bytes) -> _HookReply:
    if output.strip() in (b"", b"{}"):
        return _HookReply()
    try:
        answer = json.decode(output, type=ready(_HookReply))
        _require_one_answer(output)
    except (DecodeError, ValidationError, ValueError, RecursionError) as error:
        raise _Trouble(f"its answer makes no sense: {error}") from None
    if answer.permission is None:
        raise _Trouble("its answer has no `permission`")
    return answer


def _require_one_answer(output: bytes) -> None:
    """Of two members of one name the last would count, and a hook that puts a line into its answer without
    quoting it lets that line write the second. So it is with names that differ in case alone."""
    from json import loads

    def read(pairs: list[tuple[str, object]]) -> int:
        if len({name.replace("_", "").lower() for name, _ in pairs}) < len(pairs):
            raise _Trouble("its answer says something twice")
        return 0

    loads(output, object_pairs_hook=read)
