"""A stand-in for a model's endpoint on loopback: it asks for tools, hears what came of them, and is done.

Facts (Anthropic's Messages API, OpenAI's Responses and Chat Completions, Google's GenerateContent): a
streamed answer is a row of events, of which agents need the few below. Whatever else is asked of it (titles,
counts of tokens) gets a short text or nothing. Gemini CLI asks without a stream, after 30 turns and for JSON,
whether the model goes in a circle, and goes on when it has an answer: an empty object is a no.
"""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import perf_counter
from typing import Any, NamedTuple

Event = tuple[str, dict[str, Any]]


class Call(NamedTuple):
    """One use of a tool."""

    tool: str
    given: dict[str, Any]


Step = Sequence[Call]
"""What the model asks for at once."""


class Model:
    """Asks for one step after another, as it hears the results of each, which it keeps."""

    def __init__(
        self, *script: Step, again: Callable[[str], bool] = lambda _: False, subagent: str = ""
    ) -> None:
        """A step of one call is asked for once more where its result is `again`. A conversation that begins
        with the prompt `subagent` gets one call, `subagent_step`."""
        self.script = list(script)
        self.again, self.subagent = again, subagent
        self.subagent_step: Step = ()
        self.repeated: list[int] = []
        """Which results were of such a call, and are not its last."""
        self.heard: list[str] = []
        self.asked: list[str] = []
        self.tools: set[str] = set()
        """What the agent offered."""
        self.seconds: list[float] = []
        """How long each step took the agent, from the model's words to the results."""
        self._said = 0.0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _next(self, results: Sequence[str]) -> Step:
        """The step that follows these results; none after the last."""
        if len(results) > len(self.heard):
            self.seconds.append(perf_counter() - self._said)
            self.heard += results[len(self.heard) :]
            self._repeat()
        done = 0
        for step in self.script:
            if done == len(self.heard):
                self._said = perf_counter()
                return step
            done += len(step)
        return ()

    def _repeat(self) -> None:
        done = 0
        for number, step in enumerate(self.script):
            done += len(step)
            if done == len(self.heard):
                is_again = len(step) == 1 and self.again(self.heard[-1])
                if is_again and len(self.heard) - 2 not in self.repeated:  # once
                    self.repeated.append(len(self.heard) - 1)
                    self.script.insert(number + 1, step)
                return

    def answer(self, path: str, asked: dict[str, Any]) -> Iterator[Event]:
        self.asked.append(path)
        tools = (tool.get("function", tool) for tool in asked.get("tools", ()))
        self.tools |= {str(tool.get("name")) for tool in tools}
        if path.endswith(":streamGenerateContent"):
            return self._contents(asked)
        if path.endswith("/chat-stream"):
            return self._nodes(asked)
        if path.endswith("/chat/completions"):
            return self._completions(asked)
        return self._responses(asked) if path.endswith("/responses") else self._messages(asked)

    def _messages(self, asked: dict[str, Any]) -> Iterator[Event]:
        results = [
            part
            for message in asked.get("messages", ())
            for part in (message["content"] if isinstance(message["content"], list) else ())
            if part.get("type") == "tool_result"
        ]
        heard = [json.dumps(each["content"]) for each in results]
        said = "done"
        if self.subagent and self.subagent in json.dumps(asked["messages"][0]):
            step, said = () if heard else self.subagent_step, " ".join(heard) or said
        else:
            step = self._next(heard) if asked.get("tools") else ()
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
        blocks: list[tuple[dict[str, Any], dict[str, Any]]] = [
            (
                {"type": "tool_use", "id": f"toolu_{len(heard)}_{number}", "name": each.tool, "input": {}},
                {"type": "input_json_delta", "partial_json": json.dumps(each.given)},
            )
            for number, each in enumerate(step)
        ]
        blocks = blocks or [({"type": "text", "text": ""}, {"type": "text_delta", "text": said})]
        for number, (block, delta) in enumerate(blocks):
            yield "content_block_start", {"index": number, "content_block": block}
            yield "content_block_delta", {"index": number, "delta": delta}
            yield "content_block_stop", {"index": number}
        reason = {"stop_reason": "tool_use" if step else "end_turn", "stop_sequence": None}
        yield "message_delta", {"delta": reason, "usage": {"output_tokens": 1}}
        yield "message_stop", {}

    def _responses(self, asked: dict[str, Any]) -> Iterator[Event]:
        said = asked.get("input", ())
        results = [each for each in said if each.get("type", "").endswith("_call_output")]
        heard = [json.dumps(each.get("output")) for each in results]
        step = self._next(heard)
        base = {
            "id": "r",
            "object": "response",
            "created_at": 0,
            "model": asked.get("model", ""),
            "output": [],
        }
        yield "response.created", {"response": {**base, "status": "in_progress"}}
        items: list[dict[str, Any]] = [
            {
                "type": "function_call",
                "id": f"i{len(heard)}_{number}",
                "call_id": f"c{len(heard)}_{number}",
                "name": each.tool,
                "arguments": json.dumps(each.given),
            }
            for number, each in enumerate(step)
        ]
        if not items:
            text = {"type": "output_text", "text": "done", "annotations": []}
            message = {"type": "message", "id": "i", "role": "assistant", "status": "completed"}
            items = [{**message, "content": [text]}]
        for number, item in enumerate(items):
            yield "response.output_item.done", {"output_index": number, "item": item}
        usage: dict[str, Any] = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        usage |= {
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
        yield (
            "response.completed",
            {"response": {**base, "status": "completed", "output": items, "usage": usage}},
        )

    def _contents(self, asked: dict[str, Any]) -> Iterator[Event]:
        parts = [part for content in asked.get("contents", ()) for part in content.get("parts", ())]
        results = [part["functionResponse"] for part in parts if "functionResponse" in part]
        heard = [json.dumps(each["response"]) for each in results]
        step = self._next(heard) if asked.get("tools") else ()
        calls: list[dict[str, Any]] = [
            {"functionCall": {"name": each.tool, "args": each.given}} for each in step
        ]
        content = {"role": "model", "parts": calls or [{"text": "done"}]}
        yield "", {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}

    def _completions(self, asked: dict[str, Any]) -> Iterator[Event]:
        results = [each for each in asked.get("messages", ()) if each.get("role") == "tool"]
        heard = [json.dumps(each["content"]) for each in results]
        step = self._next(heard) if asked.get("tools") else ()
        calls = [
            {
                "index": number,
                "id": f"call_{len(heard)}_{number}",
                "type": "function",
                "function": {"name": each.tool, "arguments": json.dumps(each.given)},
            }
            for number, each in enumerate(step)
        ]
        said: dict[str, Any] = {"tool_calls": calls} if calls else {"content": "done"}
        base = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": asked.get("model", "")}
        yield (
            "",
            {
                **base,
                "choices": [{"index": 0, "delta": {"role": "assistant", **said}, "finish_reason": None}],
            },
        )
        end = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        yield "", {**base, "choices": [end], "usage": usage}

    def _nodes(self, asked: dict[str, Any]) -> Iterator[Event]:
        """Auggie's own protocol, as its source has it: a node of type 1 is a result, one of type 5 a call."""
        said = [node for each in asked.get("chat_history", ()) for node in each.get("request_nodes") or ()]
        results = [node for node in (*said, *asked.get("nodes", ())) if node.get("type") == 1]
        heard = [json.dumps(each["tool_result_node"]["content"]) for each in results]
        step = self._next(heard) if asked.get("tool_definitions") else ()
        calls: list[dict[str, Any]] = [
            {
                "id": number,
                "type": 5,
                "content": "",
                "tool_use": {
                    "tool_use_id": f"t{len(heard)}_{number}",
                    "tool_name": each.tool,
                    "input_json": json.dumps(each.given),
                },
            }
            for number, each in enumerate(step, 1)
        ]
        more = {"unknown_blob_names": [], "checkpoint_not_found": False, "workspace_file_chunks": []}
        nodes = calls or [{"id": 1, "type": 0, "content": "done"}]
        yield "", {**more, "text": "" if calls else "done", "nodes": nodes, "stop_reason": 3 if calls else 1}


MODELS = {
    "default_model": "m",
    "models": [{"name": "m", "suggested_prefix_char_count": 1, "suggested_suffix_char_count": 1}],
    "languages": [],
    "feature_flags": {"enable_hooks": True},
    "user": {"id": "u", "email": "u@none"},
    "user_tier": "professional",
}
"""What Auggie asks its server first. The server says whether it runs hooks."""


def _line(name: str, data: dict[str, Any]) -> str:
    head, told = (f"event: {name}\n", {"type": name, **data}) if name else ("", data)
    return f"{head}data: {json.dumps(told)}\n\n"


def _handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True
        wbufsize = -1  # head and body in one write: else a delayed acknowledgement takes 40 ms

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            if path.endswith("/get-models"):
                self._send(json.dumps(MODELS).encode(), "application/json")
                return
            if path.endswith("/chat-stream"):
                nodes = model.answer(path, json.loads(body))
                self._send("".join(f"{json.dumps(data)}\n" for _, data in nodes).encode(), "application/json")
                return
            if path.endswith(":generateContent"):
                content = {"role": "model", "parts": [{"text": "{}"}]}
                whole = {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}
                self._send(json.dumps(whole).encode(), "application/json")
                return
            if not path.endswith(("/messages", "/responses", "/chat/completions", ":streamGenerateContent")):
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
