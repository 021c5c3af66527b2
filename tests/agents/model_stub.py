"""A stand-in for a model's endpoint on loopback: it asks for one tool, hears what came of it, and is done.

Facts (Anthropic's Messages API, OpenAI's Responses API, Google's GenerateContent): a streamed answer is a row
of events, of which agents need the few below. Whatever else is asked of it (titles, counts of tokens) gets a
short text or nothing.
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Event = tuple[str, dict[str, Any]]


class Model:
    """Says `tool` with `given` until it hears a result, which it keeps."""

    def __init__(self, tool: str, given: dict[str, Any]) -> None:
        self.tool, self.given = tool, given
        self.heard: list[str] = []
        self.asked: list[str] = []
        self.tools: set[str] = set()
        """What the agent offered."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str, asked: dict[str, Any]) -> Iterator[Event]:
        self.asked.append(path)
        self.tools |= {str(tool.get("name")) for tool in asked.get("tools", ())}
        if path.endswith("GenerateContent"):
            return self._contents(asked)
        return self._responses(asked) if path.endswith("/responses") else self._messages(asked)

    def _messages(self, asked: dict[str, Any]) -> Iterator[Event]:
        results = [
            part
            for message in asked.get("messages", ())
            for part in (message["content"] if isinstance(message["content"], list) else ())
            if part.get("type") == "tool_result"
        ]
        self.heard += [json.dumps(each["content"]) for each in results]
        is_work = any(tool.get("name") == self.tool for tool in asked.get("tools", ())) and not results
        usage = {"input_tokens": 1, "output_tokens": 1}
        start = {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": asked.get("model", ""),
            "content": [],
        }
        yield (
            "message_start",
            {"message": {**start, "stop_reason": None, "stop_sequence": None, "usage": usage}},
        )
        if is_work:
            block = {"type": "tool_use", "id": f"toolu_{len(self.asked)}", "name": self.tool, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(self.given)}
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "done"}
        yield "content_block_start", {"index": 0, "content_block": block}
        yield "content_block_delta", {"index": 0, "delta": delta}
        yield "content_block_stop", {"index": 0}
        reason = {"stop_reason": "tool_use" if is_work else "end_turn", "stop_sequence": None}
        yield "message_delta", {"delta": reason, "usage": {"output_tokens": 1}}
        yield "message_stop", {}

    def _responses(self, asked: dict[str, Any]) -> Iterator[Event]:
        said = asked.get("input", ())
        results = [each for each in said if each.get("type", "").endswith("_call_output")]
        self.heard += [json.dumps(each.get("output")) for each in results]
        base = {
            "id": "r",
            "object": "response",
            "created_at": 0,
            "model": asked.get("model", ""),
            "output": [],
        }
        yield "response.created", {"response": {**base, "status": "in_progress"}}
        if results:
            text = {"type": "output_text", "text": "done", "annotations": []}
            item = {
                "type": "message",
                "id": "i",
                "role": "assistant",
                "status": "completed",
                "content": [text],
            }
        else:
            arguments = json.dumps(self.given)
            item = {
                "type": "function_call",
                "id": "i",
                "call_id": "c",
                "name": self.tool,
                "arguments": arguments,
            }
        yield "response.output_item.done", {"output_index": 0, "item": item}
        usage: dict[str, Any] = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        usage |= {
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        yield (
            "response.completed",
            {"response": {**base, "status": "completed", "output": [item], "usage": usage}},
        )

    def _contents(self, asked: dict[str, Any]) -> Iterator[Event]:
        parts = [part for content in asked.get("contents", ()) for part in content.get("parts", ())]
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        self.heard += [json.dumps(each["response"]) for each in results]
        is_work = bool(asked.get("tools")) and not results
        part = {"functionCall": {"name": self.tool, "args": self.given}} if is_work else {"text": "done"}
        content = {"role": "model", "parts": [part]}
        yield "", {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}


def _line(name: str, data: dict[str, Any]) -> str:
    head, told = (f"event: {name}\n", {"type": name, **data}) if name else ("", data)
    return f"{head}data: {json.dumps(told)}\n\n"


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            if not path.endswith(("/messages", "/responses", "GenerateContent")):
                self._send(b'{"input_tokens": 1}', "application/json")
                return
            events = model.answer(path, json.loads(body))
            self._send("".join(_line(*event) for event in events).encode(), "text/event-stream")

        def do_GET(self) -> None:
            self._send(b"{}", "application/json")

        def do_HEAD(self) -> None:
            self._send(b"", "application/json")

        def _send(self, data: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nobody reads it."""

    return Handler
