"""A package index on one port: a wheel for pip and a tarball for npm, each of a package `tinypkg`."""

import hashlib
import io
import json
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

NAME, VERSION = "tinypkg", "1.0.0"
WHEEL, TARBALL = f"{NAME}-{VERSION}-py3-none-any.whl", f"{NAME}-{VERSION}.tgz"


def wheel() -> bytes:
    info = f"{NAME}-{VERSION}.dist-info"
    files = {
        f"{NAME}.py": "SAYS = 'tiny from pip'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {VERSION}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": f"{NAME}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n",
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, text in files.items():
            archive.writestr(zipfile.ZipInfo(name), text)
    return made.getvalue()


def tarball() -> bytes:
    files = {
        "package/package.json": json.dumps({"name": NAME, "version": VERSION, "main": "index.js"}),
        "package/index.js": "module.exports = 'tiny from npm'\n",
    }
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return made.getvalue()


class Index:
    """Answers until it is closed; `asked` are the paths that it was asked for."""

    def __init__(self, host: str) -> None:
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.address = f"http://{host}:{self._server.server_address[1]}"
        whole = tarball()
        dist = {
            "tarball": f"{self.address}/files/{TARBALL}",
            "shasum": hashlib.sha1(whole, usedforsecurity=False).hexdigest(),
        }
        known = {"name": NAME, "version": VERSION, "main": "index.js", "dist": dist}
        packument = {"name": NAME, "dist-tags": {"latest": VERSION}, "versions": {VERSION: known}}
        page = f'<a href="{self.address}/files/{WHEEL}">{WHEEL}</a>'
        self.files = {
            f"/simple/{NAME}/": (page.encode(), "text/html"),
            f"/files/{WHEEL}": (wheel(), "application/zip"),
            f"/{NAME}": (json.dumps(packument).encode(), "application/json"),
            f"/files/{TARBALL}": (whole, "application/octet-stream"),
        }
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _handler(index: Index) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.asked.append(self.path)
            data, kind = index.files.get(self.path, (b"", ""))
            self.send_response(200 if kind else 404)
            self.send_header("Content-Type", kind or "text/plain")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nobody reads it."""

    return Handler
