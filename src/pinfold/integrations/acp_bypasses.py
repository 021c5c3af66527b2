"""Finds commands that an ACP agent ran by itself, though the editor has terminals for it.

Facts:
- An agent announces a tool call, of `kind` execute where it runs something, and reports its `status`. The
  command is in `rawInput`, as a text or as words, or the call's title shows it.
- Calls of that kind that only look after an earlier command (its output, its end) have a `rawInput` without a
  command.
- An agent that uses the editor's terminals makes one for each command, before or after it announces the call.
- Some show a terminal of their own making (`type: terminal` in the content, with what it said in `_meta`).
- Tried: codex-acp 0.16 and claude-agent-acp 0.23 never make one; claude-code-acp 0.16 does.

So a call of that kind that ends well, where no terminal was made that no other call has used, was run by the
agent. A call that a person has rejected may be reported as done, too.
"""

from typing import Any

EXECUTE, DONE = "execute", "completed"


class _Call:
    def __init__(self) -> None:
        self.kind = ""
        self.command: str | None = None
        """None as long as nothing tells it."""
        self.title = ""
        self.is_rejected = False


class OwnRuns:
    """What the agent has said of its tool calls. One thread reads the agent, another one the editor."""

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], _Call] = {}
        self._terminals: dict[str, int] = {}
        """How many a session has made that no call has used."""
        self._asked: dict[str, tuple[tuple[str, str], frozenset[str]]] = {}
        """Questions of the agent: the call of each, and the options that allow it."""

    def made(self, params: dict[str, Any]) -> None:
        """The agent asks for a terminal; one that is refused counts, too."""
        session = str(params.get("sessionId"))
        self._terminals[session] = self._terminals.get(session, 0) + 1

    def asked(self, message: dict[str, Any]) -> None:
        """The agent asks the editor's person about a call."""
        params = _table(message.get("params"))
        call = _table(params.get("toolCall"))
        key = (str(params.get("sessionId")), str(call.get("toolCallId")))
        self._noted(key, call)
        options = [_table(each) for each in _list(params.get("options"))]
        allowing = (each.get("optionId") for each in options if str(each.get("kind")).startswith("allow"))
        self._asked[repr(message.get("id"))] = key, frozenset(map(str, allowing))

    def answered(self, message: dict[str, Any]) -> None:
        """The editor's person has answered."""
        key, allowing = self._asked.pop(repr(message.get("id")), (None, frozenset[str]()))
        chosen = _table(_table(message.get("result")).get("outcome")).get("optionId")
        if key is not None and (call := self._calls.get(key)) and str(chosen) not in allowing:
            call.is_rejected = True

    def updated(self, params: dict[str, Any]) -> str:
        """What the agent ran by itself, by its report of a call; empty if nothing says so."""
        update = _table(params.get("update"))
        if update.get("sessionUpdate") not in ("tool_call", "tool_call_update"):
            return ""
        session = str(params.get("sessionId"))
        key = (session, str(update.get("toolCallId")))
        call = self._noted(key, update)
        if update.get("status") not in (DONE, "failed"):
            return ""
        del self._calls[key]
        if call.kind != EXECUTE or update.get("status") != DONE or call.is_rejected:
            return ""
        if self._terminals.get(session, 0):
            self._terminals[session] -= 1
            return ""
        return call.title if call.command is None else call.command

    def _noted(self, key: tuple[str, str], told: dict[str, Any]) -> _Call:
        call = self._calls.setdefault(key, _Call())
        call.kind = str(told.get("kind") or call.kind)
        call.title = str(told.get("title") or call.title) or "a command"
        if isinstance(told.get("rawInput"), dict) and told["rawInput"]:
            words = told["rawInput"].get("command", told["rawInput"].get("cmd", ""))
            call.command = " ".join(map(str, words)) if isinstance(words, list) else str(words)
        return call


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
