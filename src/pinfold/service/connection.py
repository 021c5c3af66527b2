"""One client's line: what it says is read, each call is answered, and all that it has ends with it.

What takes time (a command, a question, a look at the disk) has a thread of its own, so that an answer or a
cancellation is heard meanwhile. INVARIANT: where there is a token, nothing is answered but `challenge` and
`initialize` until the client has proven that it knows it; and when the client goes, every session of it is
closed before `serve` returns.
"""

from threading import Lock, Thread
from typing import Any

from msgspec import UNSET

from pinfold.service import messages as said
from pinfold.service.lines import LONGEST, LineStream, TooLong
from pinfold.service.messages import Fault
from pinfold.service.methods import METHODS, ClientCalls, Method, Service, StartedCall

AT_ONCE = 512
"""Calls of one client that may be under way; more are refused."""


class Connection:
    def __init__(self, lines: LineStream, service: Service) -> None:
        self._lines = lines
        self._calls = ClientCalls(service, self._tell)
        self._lock = Lock()
        self._under_way = 0

    def serve(self) -> None:
        """Until the client goes."""
        try:
            for line in self._lines:
                if line.strip():
                    self._take(line)
        except TooLong:
            fault = Fault(said.PARSE, "invalid", f"a line has at most {LONGEST} bytes")
            self._lines.write(said.fault_line(None, fault))
        finally:
            self.close()

    def close(self) -> None:
        self._lines.hang_up()
        self._calls.close()

    def _tell(self, event: str, params: dict[str, Any]) -> bool:
        return self._lines.write(said.event_line(event, params))

    def _take(self, line: bytes) -> None:
        try:
            call = said.decode(line)
        except Fault as fault:
            self._lines.write(said.fault_line(said.id_of(line), fault))
            return
        number = call.id
        try:
            if call.method not in METHODS:
                raise Fault(said.NO_METHOD, "invalid", f"there is no method `{call.method}`")
            kind, method, is_quick = METHODS[call.method]
            if not self._calls.is_known and call.method not in ("challenge", "initialize"):
                raise Fault(said.NOT_YOU, "unauthorized", "say `challenge` and `initialize` first")
            params = said.params_of(call, kind)
            if is_quick:
                self._answer(number, method, params)
            else:
                self._begin(number, method, params)
        except Fault as fault:
            self._say(number, said.fault_line(number, fault))

    def _begin(self, id: object, method: Method, params: Any) -> None:
        with self._lock:
            if self._under_way >= AT_ONCE:
                many = f"{AT_ONCE} calls are under way already"
                raise Fault(said.BUSY, "busy", many, remedy="wait for some of them")
            self._under_way += 1

        def work() -> None:
            try:
                self._answer(id, method, params)
            finally:
                with self._lock:
                    self._under_way -= 1

        try:
            Thread(target=work, name="pinfold-call", daemon=True).start()
        except RuntimeError:
            with self._lock:
                self._under_way -= 1
            raise Fault(said.BUSY, "busy", "no thread is free", remedy="wait for other calls") from None

    def _answer(self, id: object, method: Method, params: Any) -> None:
        begun = None
        try:
            result = method(self._calls, params)
            if isinstance(result, StartedCall):
                begun, result = result, result.answer
            line = said.result_line(id, result)
        except BaseException as error:  # noqa: BLE001  (the client gets every error as an answer)
            line = said.fault_line(id, said.fault_of(error))
        self._say(id, line)
        if begun is not None:
            begun.tell()

    def _say(self, id: object, line: bytes) -> None:
        if id is not UNSET:
            self._lines.write(line)
