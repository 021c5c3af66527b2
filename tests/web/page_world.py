"""Questions to put on the page, a page to put them on, and whoever asks."""

import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pinfold.model.decision import Decision, Reason, StepCode, Verdict
from pinfold.model.permission import LASTING, Answer, Capability, PermissionNeeded, Reply
from pinfold.model.policy import SandboxPolicy
from pinfold.model.text_positions import Span
from pinfold.web import WebApprover
from pinfold.web.instance import WebPage

EVERY = (Answer.NO, Answer.ONCE, *LASTING)


def question(
    id: str = "q", command: str = "npm publish && git push --force", **given: Any
) -> PermissionNeeded:
    marked = command.find("git push")
    span = Span(marked, len(command)) if marked >= 0 else None
    reason = Reason(
        StepCode.ASK_RULES,
        given.pop("why", "matches the deny rule `git push`"),
        Verdict.ASK,
        rule="git push",
        span=span,
    )
    decision = Decision(
        Verdict.ASK, (reason,), sandboxed=given.pop("sandboxed", True), policy=SandboxPolicy()
    )
    told = {"capability": Capability.RUN, "cwd": "/home/me/site", "choices": EVERY, **given}
    return PermissionNeeded(request_id=id, session="s", command=command, decision=decision, **told)


@contextmanager
def page(home: Path, port: int = 0) -> Iterator[tuple[WebPage, dict[str, str]]]:
    environ = {"HOME": str(home)}
    opened = WebPage(environ, port)
    opened.serve()
    try:
        yield opened, environ
    finally:
        opened.close()


class Asking:
    """One question under way."""

    def __init__(self, environ: dict[str, str], asked: PermissionNeeded, seconds: float = 60.0) -> None:
        self.approver = WebApprover(environ, seconds)
        self.reply: Reply | None = None
        self._thread = threading.Thread(target=self._ask, args=(asked,), daemon=True)
        self._thread.start()

    def _ask(self, asked: PermissionNeeded) -> None:
        self.reply = self.approver(asked)

    def wait(self) -> Reply | None:
        self._thread.join(30)
        assert not self._thread.is_alive()
        return self.reply


class Tab:
    """What a browser would send."""

    def __init__(self, opened: WebPage) -> None:
        self.port, self.token = opened.place.port, opened.place.token
        self.address = opened.place.host
        self.host = f"{self.address}:{self.port}"

    def send(self, method: str, path: str, body: Any = None, **headers: str | None) -> tuple[int, Any, Any]:
        """Headers by keyword, `_` for `-`; None leaves one out."""
        usual: dict[str, str | None] = {"Host": self.host, "Authorization": f"Bearer {self.token}"}
        if method == "POST":
            usual |= {"Origin": f"http://{self.host}", "Content-Type": "application/json"}
        usual |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection(self.address, self.port, timeout=30)
        data = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in usual.items():
            if value is not None:
                connection.putheader(name, value)
        if data is not None:
            connection.putheader("Content-Length", str(len(data)))
        connection.endheaders(data)
        response = connection.getresponse()
        said = response.read()
        connection.close()
        is_json = response.headers.get_content_type() == "application/json"
        return response.status, json.loads(said) if is_json else said, response.headers

    def questions(self, after: int = -1, count: int = 1) -> list[Any]:
        """What stands, once that many do."""
        while True:
            status, news, _ = self.send("GET", f"/api/questions?after={after}")
            assert status == 200, news
            if len(news["questions"]) == count:
                return list(news["questions"])
            after = news["version"]

    def answer(self, id: str, answer: str, **given: Any) -> tuple[int, Any]:
        status, said, _ = self.send("POST", "/api/answer", {"id": id, "given": {"answer": answer, **given}})
        return status, said
