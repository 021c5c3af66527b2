"""The same requests by the library, the service and MCP come to the same decisions and the same journal."""

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Sequence
from typing import Any

import mcp_types as types
from mcp import Client as McpClient

import pinfold
from pinfold.approval import Approver
from pinfold.audit.history import entries
from pinfold.integrations.mcp.server import McpServer
from pinfold.model.errors import FileRefused
from pinfold.service.client import Client, Question
from pinfold.service.connection import Connection
from pinfold.service.lines import LineStream
from pinfold.service.methods import Service
from pinfold.service.remote_session import ServiceError
from pinfold.state.directory import journal_file
from tests.probe_module import probes_of, run

SETTINGS: dict[str, Any] = {
    "commands": {"deny": ["git push"], "ask": ["touch asked"]},
    # Who said no to a write that waits is told, and is another one by each face.
    "filesystem": {"hide": ["secret"], "ask": False},
}
WIDER = {"additionalReadwritePaths": ["/opt"]}
COMMANDS: list[dict[str, Any]] = [
    {"command": "echo hi; exit 3"},
    {"command": "echo {} > .mcp.json", "description": "tries"},
    {"command": "git push"},
    {"command": "touch asked"},
    {"command": "touch x", "sandboxPolicy": {"type": "WORKSPACE_READONLY"}},
    {"command": "touch x", "sandboxPolicy": WIDER},
    {"command": "id -u", "dangerouslyDisableSandbox": True},
    {"command": "sleep 100", "timeout": 0.2},
    {"command": "pwd", "cwd": "/usr"},
]
Told = list[tuple[Any, ...]]
"""What each request came to: `ran` with how it ended, or the step that refused it."""


class Says:
    """Yes to what asks for no more than the fence gives."""

    name = "a person"

    def __call__(self, question: pinfold.PermissionNeeded) -> pinfold.Answer:
        return pinfold.Answer.ONCE if question.capability == "run" else pinfold.Answer.NO


def by_library() -> tuple[str, Told]:
    from pinfold.policy.json_format import from_json

    told: Told = []
    with pinfold.Session([os.getcwd()], settings=SETTINGS, approvers=[Says()]) as session:
        for each in COMMANDS:
            policy = from_json(each["sandboxPolicy"]) if "sandboxPolicy" in each else None
            result = session.run(
                pinfold.RunCommand(
                    each["command"],
                    cwd=each.get("cwd"),
                    description=each.get("description", ""),
                    timeout=each.get("timeout"),
                    policy=policy,
                    disable_sandbox=each.get("dangerouslyDisableSandbox", False),
                )
            )
            told.append(
                ("ran", result.exit_code, result.stdout, len(result.violations))
                if result.ran
                else ("refused", result.decision.reasons[0].step)
            )
        for tool in (
            lambda: session.files.write("a", "one\n"),
            lambda: session.files.replace("a", [("one", "two")]),
            lambda: session.files.read("a"),
            lambda: session.files.read("secret"),
            lambda: session.files.read("/etc/passwd"),
        ):
            told.append(_tried(tool))
        return session.id, told


def _tried(tool: Callable[[], object]) -> tuple[Any, ...]:
    try:
        tool()
    except FileRefused as refused:
        return "refused", refused.rule
    return ("ran",)


def by_service() -> tuple[str, Told]:
    def person(question: Question) -> str:
        return "once" if question.capability == "run" else "no"

    ours, theirs = socket.socketpair()
    lines = LineStream(theirs.fileno(), theirs.fileno(), theirs)
    thread = threading.Thread(target=Connection(lines, Service(settings=SETTINGS, cwd=os.getcwd())).serve)
    thread.start()
    told: Told = []
    with ours, theirs:
        with Client(LineStream(ours.fileno(), ours.fileno(), ours), on_permission=person) as client:
            session = client.create_session([os.getcwd()])
            for each in COMMANDS:
                try:
                    end = session.run(**each)
                    told.append(("ran", end.code, end.stdout, len(end.violations)))
                except ServiceError as error:
                    told.append(("refused", error.data["step"]))
            for tool in (
                lambda: session.write("a", "one\n"),
                lambda: session.replace("a", [("one", "two")]),
                lambda: session.read("a"),
                lambda: session.read("secret"),
                lambda: session.read("/etc/passwd"),
            ):
                try:
                    tool()
                    told.append(("ran",))
                except ServiceError as error:
                    told.append(("refused", error.data["step"]))
        thread.join()
    return session.id, told


def by_mcp() -> tuple[str, Told]:
    def opened(approvers: Sequence[Approver]) -> pinfold.Session:
        return pinfold.Session([os.getcwd()], settings=SETTINGS, approvers=approvers)

    async def answered(_: Any, params: Any) -> types.ElicitResult:
        decision = "once" if "\nrun this in the sandbox" in params.message else "no"
        return types.ElicitResult(action="accept", content={"decision": decision})

    person: Any = answered

    async def talk(server: McpServer) -> Told:
        told: Told = []
        async with McpClient(server.server(), mode="legacy", elicitation_callback=person) as client:
            for each in COMMANDS:
                data = (await client.call_tool("execute_command", each)).structured_content
                told.append(
                    ("refused", data["step"])
                    if "step" in data
                    else ("ran", data["exitCode"], data["stdout"], len(data["violations"]))
                )
            for tool, arguments in (
                ("write_file", {"path": "a", "text": "one\n"}),
                ("replace_in_file", {"path": "a", "blocks": [{"search": "one", "replace": "two"}]}),
                ("read_file", {"path": "a"}),
                ("read_file", {"path": "secret"}),
                ("read_file", {"path": "/etc/passwd"}),
            ):
                data = (await client.call_tool(tool, arguments)).structured_content
                told.append(("refused", data["step"]) if "step" in data else ("ran",))
        return told

    server = McpServer(opened)
    with server.session:
        return server.session.id, asyncio.run(talk(server))


def journaled(session: str) -> list[Any]:
    """Its rows, without what is another each time: numbers, seconds, processes, and the approver's name; nor
    the policy, which only the first session has to write."""
    rows = [entry for entry in entries(journal_file(os.environ), session) if entry.kind != "policy"]
    first = rows[0].id
    told = []
    for row in rows:
        data = {key: value for key, value in row.data.items() if key not in ("seconds", "by", "policy")}
        for violation in data.get("violations", ()):
            del violation["pid"]
        told.append((row.id - first, row.kind, row.about and row.about - first, data))
    return told


def every_face_decides_and_journals_alike() -> None:
    with open("secret", "w"):
        pass
    faces = {}
    for face in (by_library, by_service, by_mcp):
        session, told = face()
        faces[face.__name__] = told, journaled(session)
        for left in {"a", "asked", "x"} & {*os.listdir()}:
            os.unlink(left)
    told, rows = faces["by_library"]
    assert [each[0] for each in told].count("refused") == 5, told
    assert len(rows) > len(COMMANDS)
    for name, (also_told, also_rows) in faces.items():
        assert also_told == told, (name, also_told, told)
        for row, also in zip(rows, also_rows, strict=True):
            assert also == row, (name, also, row)


FACES = probes_of(globals(), "by_library", "by_service", "by_mcp", "journaled")

if __name__ == "__main__":
    run(globals())
