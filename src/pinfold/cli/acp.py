"""`pinfold acp -- AGENT ARG...`: starts an agent for an editor that speaks ACP, and mediates between them."""

import gc
import os
import subprocess
import sys
import threading
from argparse import REMAINDER, ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

import msgspec

from pinfold.cli import FAILED, SIGNALLED
from pinfold.cli.arguments import add_common, here
from pinfold.cli.judged_arguments import add_choices, overrides_of
from pinfold.isolated import program_outside
from pinfold.model.errors import PinfoldError, PolicyError
from pinfold.session import Session
from pinfold.settings.sources import find_project
from pinfold.web import WebApprover

if TYPE_CHECKING:
    from pinfold.approval import Approver
    from pinfold.integrations.acp import Proxy
    from pinfold.service.lines import LineStream


GRACE = 5.0
"""Seconds that an agent has to exit by itself."""


def configure(parser: ArgumentParser) -> None:
    parser.usage = "pinfold acp [OPTION...] -- AGENT [ARG...]"
    parser.add_argument("words", nargs=REMAINDER, metavar="AGENT ARG...", help="the agent, and its arguments")
    add_choices(parser)
    add_common(parser)


def run(args: Namespace) -> int:
    gc.enable()  # this verb runs for long
    from pinfold.integrations.acp import Proxy
    from pinfold.service.lines import LineStream

    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not words or not words[0]:
        raise PolicyError(
            "name the agent to start after --", help="for example: pinfold acp -- my-agent --acp"
        )
    directory = args.cwd or here()
    program = program_outside(words[0], os.environ, (find_project(directory),))
    if not program:
        raise PinfoldError(
            f"{words[0]}: not found in PATH outside the project, and commands may write to the project; "
            "give the full path of the agent"
        )
    editor = LineStream(os.dup(0), os.dup(1))
    with open(os.devnull) as null:
        os.dup2(null.fileno(), 0)
    os.dup2(2, 1)
    try:
        started = subprocess.Popen(
            words, executable=program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=args.cwd
        )
    except OSError as error:
        raise PinfoldError(f"{words[0]}: {error.strerror}") from None
    assert started.stdin and started.stdout  # noqa: S101
    agent = LineStream(started.stdout.fileno(), started.stdin.fileno())

    page = WebApprover(os.environ)

    def open_session(directory: str, person: "Approver") -> Session:
        overrides = overrides_of(args)
        session = Session([directory], settings=args.settings, overrides=overrides, approvers=[person, page])
        page.seconds = session.settings.approvals.question_timeout
        return session

    leaving = threading.Event()

    def stop(why: str) -> None:
        leaving.set()
        print(f"pinfold: {why}", file=sys.stderr, flush=True)
        _end(started)
        proxy.close()
        os._exit(FAILED)

    proxy = Proxy(
        open_session,
        lambda message: _send(editor, message),
        lambda message: _send(agent, message),
        stop,
    )
    reader = threading.Thread(target=_carry, args=(agent, proxy, started, leaving), daemon=True)
    reader.start()
    try:
        for line in editor:
            if line.strip():
                _take(line, proxy.from_editor, editor)
    finally:
        leaving.set()
        proxy.close()
        _end(started)
    return 0


def _end(agent: "subprocess.Popen[bytes]") -> None:
    agent.terminate()
    try:
        agent.wait(GRACE)
    except subprocess.TimeoutExpired:
        agent.kill()
        agent.wait()


def _carry(
    agent: "LineStream", proxy: "Proxy", started: "subprocess.Popen[bytes]", leaving: threading.Event
) -> None:
    try:
        for line in agent:
            if line.strip():
                _take(line, proxy.from_agent, None)
    finally:
        # Without its agent the proxy is of no use: the editor sees the end of its stream.
        proxy.close()
        if not leaving.is_set():
            code = _ended(started)
            sys.stderr.flush()
            os._exit(code)


def _ended(agent: "subprocess.Popen[bytes]") -> int:
    """The exit code for an agent that exited by itself; prints what was wrong."""
    try:
        code = agent.wait(GRACE)
    except subprocess.TimeoutExpired:
        print("pinfold: the agent closed its output without exiting, and was stopped", file=sys.stderr)
        _end(agent)
        return FAILED
    if code:
        how = f"because of signal {-code}" if code < 0 else f"with code {code}"
        print(f"pinfold: the agent exited {how}", file=sys.stderr)
    return SIGNALLED - code if code < 0 else code


def _take(line: bytes, take: Any, editor: "LineStream | None") -> None:
    try:
        message = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        if editor is not None:
            _send(editor, {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "not JSON"}})
        return
    if isinstance(message, dict):
        take(message)


def _send(lines: "LineStream", message: dict[str, Any]) -> None:
    lines.write(msgspec.json.encode(message) + b"\n")
