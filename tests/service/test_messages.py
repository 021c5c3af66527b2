"""Lines of clients, without a session behind them: whatever comes is a call, or a fault that can be told."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.model.errors import (
    ConfinementError,
    FileRefused,
    InternalError,
    PolicyError,
    SandboxUnavailable,
)
from pinfold.model.tool_parameters import ToolParameters
from pinfold.model.violation import Violation
from pinfold.service.lines import LineStream, TooLong
from pinfold.service.messages import Fault, decode, fault_line, fault_of, params_of
from pinfold.service.methods import METHODS
from pinfold.session.serialize import decision_as_plain, file_refusal_as_plain, question_as_plain
from tests.web.page_world import question

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.binary() | JSON.map(msgspec.json.encode))
def test_a_line_is_a_call_or_a_fault(line: bytes) -> None:
    try:
        call = decode(line)
    except Fault as fault:
        assert fault.code in (-32700, -32600)
        assert msgspec.json.decode(fault_line(None, fault))["error"]["data"]["kind"] == "invalid"
    else:
        assert call.method


@pytest.mark.parametrize("text", ["\\ud800", "\\ud800 x", "\\udc00", "\\ud83d\\ud83d"])
def test_half_of_a_surrogate_pair_is_told_as_what_it_is(text: str) -> None:
    with pytest.raises(Fault) as fault:
        decode(f'{{"jsonrpc": "2.0", "id": 1, "method": "{text}"}}'.encode())
    assert fault.value.code == -32700 and "half of a surrogate pair" in str(fault.value)


FIELDS = sorted(
    {field.encode_name for kind, _, _ in METHODS.values() for field in msgspec.structs.fields(kind)}
)


@pytest.mark.slow
@given(st.sampled_from(sorted(METHODS)), st.dictionaries(st.sampled_from(FIELDS) | st.text(), JSON))
def test_parameters_are_understood_wholly_or_refused(method: str, params: dict[str, Any]) -> None:
    kind: type[ToolParameters] = METHODS[method][0]
    call = decode(msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    try:
        params_of(call, kind)
    except Fault as fault:
        assert fault.code == -32602 and method in str(fault)
    else:
        assert set(params) <= {field.encode_name for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (FileRefused("outside", "/x", "no", "stay"), -32001, "refused"),
        (PolicyError("no", help="yes"), -32602, "invalid"),
        (SandboxUnavailable("no"), -32002, "unavailable"),
        (ConfinementError("no"), -32002, "failed"),
        (InternalError("no"), -32002, "failed"),
        (ValueError("no"), -32602, "invalid"),
        (ZeroDivisionError("no"), -32603, "internal"),
    ],
)
def test_errors_are_sorted_by_blame(error: Exception, code: int, kind: str) -> None:
    fault = fault_of(error)
    assert (fault.code, fault.data["kind"]) == (code, kind)
    assert fault.data["message"] and msgspec.json.encode(fault.data)


def test_a_line_without_an_end_is_not_gathered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    from pinfold.service import lines

    monkeypatch.setattr(lines, "LONGEST", 1000)
    reader, writer = os.pipe()
    os.write(writer, b"a\n" + b"b" * 2000)
    os.close(writer)
    found = iter(LineStream(reader, -1))
    assert next(found) == b"a"
    with pytest.raises(TooLong):
        next(found)
    os.close(reader)


def test_a_call_that_finds_no_thread_is_told_and_the_next_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import threading

    from pinfold.service.connection import Connection
    from pinfold.service.methods import Service

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    (incoming, asks), (hears, outgoing) = os.pipe(), os.pipe()
    call = b'{"jsonrpc": "2.0", "id": %d, "method": "%b", "params": {}}\n'
    os.write(asks, call % (1, b"createSession") + call % (2, b"initialize"))
    os.close(asks)
    Connection(LineStream(incoming, outgoing), Service()).serve()
    os.close(outgoing)
    with open(hears, "rb") as lines:
        busy, fine = map(msgspec.json.decode, lines)
    assert busy["id"] == 1 and busy["error"]["data"]["kind"] == "busy"
    assert fine["id"] == 2 and "result" in fine
    os.close(incoming)


def test_the_page_has_every_method_and_event() -> None:
    from pathlib import Path

    page = (Path(__file__).parent.parent.parent / "docs/service.md").read_text()
    for name in (
        *METHODS,
        "stdout",
        "stderr",
        "exit",
        "violation",
        "permissionNeeded",
        "permissionWithdrawn",
    ):
        assert f"`{name}`" in page
    told: list[type[msgspec.Struct]] = [Violation, *(kind for kind, _, _ in METHODS.values())]
    names = {field.encode_name for kind in told for field in msgspec.structs.fields(kind)}
    names |= question_as_plain(question()).keys() - decision_as_plain(question().decision).keys()
    names |= file_refusal_as_plain(FileRefused("outside", "/a", "said", "")).keys()
    assert not [name for name in sorted(names) if f"`{name}`" not in page]
