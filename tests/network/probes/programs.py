"""Real programs through the gate: each probe ends well, or says why; exit 77 is a skip.

Run one by hand: `python -m tests.network.probes.programs NAME`, in a directory of your own.
"""

import asyncio
import getpass
import os
import pwd
import random
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.network.gate_world import LOOPBACK, World, make_certificates, server_context
from tests.network.no_network import GATE, PROXY_PORT
from tests.patience import wait_until

HERE = Path.cwd()
TOP = Path(__file__).parent.parent.parent.parent
NAMES = dict.fromkeys(("a.test", "git.test", "pypi.test", "evil.test"), ("127.0.0.1",))
ALLOWED = ("a.test", "git.test", "pypi.test", LOOPBACK)
PLACES = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
PROXY = f"http://tag-1:x@{GATE}:{PROXY_PORT}"
"""git asks a person for the password of a proxy whose address has a user and none."""


class SkipError(Exception):
    """This machine lacks something."""


def program(name: str, *places: str) -> str:
    found = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), PLACES, *places)))
    if not found:
        raise SkipError(f"there is no {name} here")
    return found


class Pages(BaseHTTPRequestHandler):
    """Answers with the host it was asked for; serves files, and git repositories."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def reply(self, body: bytes, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        if ".git/" in self.path:
            self.git()
            return
        file = HERE / "files" / self.path.lstrip("/")
        if file.is_file():
            self.reply(file.read_bytes())
        elif file.is_dir() and self.path != "/":
            links = "".join(f'<a href="{entry.name}">{entry.name}</a>' for entry in sorted(file.iterdir()))
            self.reply(links.encode(), headers=(("Content-Type", "text/html"),))
        else:
            self.reply(f"hello from {self.headers['Host']}".encode())

    def do_POST(self) -> None:
        if ".git/" in self.path:
            self.git()
        else:
            self.reply(self.rfile.read(int(self.headers["Content-Length"])))

    def body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def git(self) -> None:
        path, _, query = self.path.partition("?")
        done = subprocess.run(
            [program("git"), "http-backend"],
            input=self.body(),
            capture_output=True,
            check=True,
            env={
                **os.environ,
                "GIT_PROJECT_ROOT": str(HERE / "files"),
                "GIT_HTTP_EXPORT_ALL": "1",
                "REQUEST_METHOD": self.command,
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_USER": "me",
            },
        ).stdout
        head, _, body = done.partition(b"\r\n\r\n")
        headers = tuple(
            (name.strip(), value.strip())
            for name, _, value in (line.partition(":") for line in head.decode().split("\r\n"))
        )
        status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
        self.reply(body, status, tuple(header for header in headers if header[0] != "Status"))


@contextmanager
def pages(is_secure: bool) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.daemon_threads = True
    if is_secure:
        server.socket = server_context(HERE).wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


class Away:
    """A place with no network but the gate's."""

    def __init__(self, world: World, ports: list[int]) -> None:
        self._world, self._ports = world, ports
        self.secure, self.plain = ports[0], ports[1]

    async def run(self, *command: str, **env: str) -> tuple[int, str]:
        """The command's exit code and all that it said."""
        ours, theirs = socket.socketpair()
        resolv = HERE / "resolv.conf"
        resolv.write_text(f"nameserver {GATE}\noptions timeout:2 attempts:1\n")
        arguments = [str(theirs.fileno()), str(resolv), *map(str, self._ports), "--", *command]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.network.no_network", *arguments,
            pass_fds=[theirs.fileno()],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"PATH": PLACES, "HOME": str(HERE), "LC_ALL": "C.UTF-8",
                 "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **env},
        )  # fmt: skip
        theirs.close()
        with ours, ExitStack() as served:
            word, faces, _, _ = await asyncio.to_thread(socket.recv_fds, ours, 16, 64)
            names, proxy, *carried = (socket.socket(fileno=face) for face in faces)
            if word:
                self._world.gate.serve_resolver(names)
                served.callback(self._world.accept_proxy(proxy).cancel)
                for listener in carried:
                    served.callback(self._world.accept_carried(listener).cancel)
                ours.send(b"x")
            async with asyncio.timeout(60):
                said, _ = await process.communicate()
        if not word and b"Operation not permitted" in said:
            raise SkipError("this user may not make namespaces")
        return process.returncode or 0, said.decode(errors="replace")

    async def fine(self, *command: str, **env: str) -> str:
        code, said = await self.run(*command, **env)
        assert code == 0, f"{command}: {code}\n{said}\n{self._world.records}"
        return said

    def faces(self, host: str) -> set[str]:
        return {record.face for record in self._world.records if record.host == host}


def free_port() -> int:
    """One that nobody is given by chance before it is bound: those begin at 32768."""
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


async def with_away(probe: Callable[[Away], Awaitable[None]], *more: int) -> None:
    make_certificates(HERE, *NAMES)
    (HERE / "files").mkdir(exist_ok=True)
    world = World(*ALLOWED, names=NAMES)
    with pages(True) as secure, pages(False) as plain:
        async with world.running():
            await probe(Away(world, [secure, plain, *more]))


async def curl(away: Away) -> None:
    by, ca = program("curl"), ("-sS", "--cacert", str(HERE / "ca.pem"))
    urls = f"https://a.test:{away.secure}/", f"http://a.test:{away.plain}/"
    for url, port in zip(urls, (away.secure, away.plain), strict=True):
        assert await away.fine(by, *ca, url) == f"hello from a.test:{port}"
        assert await away.fine(by, *ca, "-x", PROXY, url) == f"hello from a.test:{port}"
        socks = f"socks5h://tag-2:x@{GATE}:{PROXY_PORT}"
        assert await away.fine(by, *ca, "-x", socks, url) == f"hello from a.test:{port}"
    assert away.faces("a.test") == {"carried", "connect", "http", "socks"}
    body = await away.fine(by, *ca, "-d", "x" * 3000, urls[1], "-x", PROXY)
    assert body == "x" * 3000
    # large enough that curl first asks whether to go on
    (HERE / "large").write_bytes(b"y" * 3_000_000)
    for way in ((), ("-x", PROXY)):
        body = await away.fine(by, *ca, *way, "--data-binary", f"@{HERE}/large", urls[1])
        assert body == "y" * 3_000_000
    # a denied name: not found without a proxy, told why with one
    code, said = await away.run(by, *ca, f"https://evil.test:{away.secure}/")
    assert code == 6, said
    code, said = await away.run(by, *ca, "-x", PROXY, f"http://evil.test:{away.plain}/")
    assert f"add `evil.test:{away.plain}` to `network.allow`" in said
    code, said = await away.run(by, *ca, "-v", "-x", PROXY, f"https://evil.test:{away.secure}/")
    assert code == 56 and "403" in said, said
    # another name in the hello, or in the request, than was connected to
    to = ("--connect-to", f"evil.test:{away.secure}:a.test:{away.secure}")
    code, said = await away.run(by, *ca, *to, f"https://evil.test:{away.secure}/")
    assert code == 35, (code, said)
    code, said = await away.run(by, *ca, "-H", "Host: evil.test", f"http://a.test:{away.plain}/")
    assert "another host" in said, said


async def no_packet(away: Away) -> None:
    code = """if True:
        import socket
        def tried(action):
            try: action()
            except OSError as error: return type(error).__name__
            return "let through"
        def datagram(): socket.socket(2, 2).sendto(b"x", ("203.0.113.9", 53))
        print(tried(lambda: socket.create_connection(("203.0.113.9", 80), 2)))
        print(tried(lambda: socket.create_connection(("2606:4700:4700::1111", 443), 2)))
        print(tried(datagram))
        print(tried(lambda: socket.getaddrinfo("c2VjcmV0.evil.test", 443)))
        print(tried(lambda: socket.getaddrinfo("c2VjcmV0.a.test", 443)))
    """
    said = await away.fine(sys.executable, "-c", code)
    assert "let through" not in said, said


async def python(away: Away) -> None:
    code = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())"
    for env in ({}, {"https_proxy": PROXY, "http_proxy": PROXY}):
        for url in (f"https://a.test:{away.secure}/", f"http://a.test:{away.plain}/"):
            said = await away.fine(sys.executable, "-c", code, url, SSL_CERT_FILE=str(HERE / "ca.pem"), **env)
            assert said.startswith("hello from a.test")
    denied = f"http://evil.test:{away.plain}/"
    _, said = await away.run(sys.executable, "-c", code, denied, http_proxy=PROXY)
    assert "HTTP Error 403" in said


async def node(away: Away) -> None:
    code = "fetch(process.argv[1]).then(r => r.text()).then(console.log, e => console.log(e.cause.code))"
    ca = str(HERE / "ca.pem")
    said = await away.fine(
        program("node"), "-e", code, f"https://a.test:{away.secure}/", NODE_EXTRA_CA_CERTS=ca
    )
    assert said.startswith("hello from a.test"), said
    said = await away.fine(
        program("node"), "-e", code, f"https://evil.test:{away.secure}/", NODE_EXTRA_CA_CERTS=ca
    )
    assert said.strip() == "ENOTFOUND", said


async def java(away: Away) -> None:
    (HERE / "Get.java").write_text("""
        import java.net.*; import java.net.http.*;
        public class Get { public static void main(String[] a) throws Exception {
            var request = HttpRequest.newBuilder(URI.create(a[0])).build();
            var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.body());
        } }
    """)
    said = await away.fine(program("java"), str(HERE / "Get.java"), f"http://a.test:{away.plain}/")
    assert "hello from a.test" in said, said


async def git(away: Away) -> None:
    by, files = program("git"), HERE / "files"
    env = {
        "GIT_SSL_CAINFO": str(HERE / "ca.pem"), "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_NAME": "n", "GIT_AUTHOR_EMAIL": "e",
        "GIT_COMMITTER_NAME": "n", "GIT_COMMITTER_EMAIL": "e",
    }  # fmt: skip
    subprocess.run([by, "init", "-q", "--bare", str(files / "r.git")], check=True)
    subprocess.run([by, "-C", str(files / "r.git"), "config", "http.receivepack", "true"], check=True)
    url = f"https://git.test:{away.secure}/r.git"
    for number, more in enumerate(({}, {"https_proxy": PROXY})):
        where = str(HERE / f"clone{number}")
        await away.fine(by, "clone", "-q", url, where, **env, **more)
        subprocess.run(
            [by, "-C", where, "commit", "-q", "--allow-empty", "-m", "one"],
            check=True,
            env={**os.environ, **env},
        )
        await away.fine(by, "-C", where, "push", "-q", "origin", f"HEAD:b{number}", **env, **more)
        await away.fine(by, "-C", where, "fetch", "-q", **env, **more)
    assert away.faces("git.test") == {"carried", "connect"}


def make_index() -> None:
    """Files that are a package index, with one package."""
    if subprocess.run(
        [sys.executable, "-m", "pip", "--version"], capture_output=True, check=False
    ).returncode:
        raise SkipError("this Python has no pip")
    package = HERE / "files/simple/tiny"
    package.mkdir(parents=True)
    with zipfile.ZipFile(package / "tiny-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1\n")
        wheel.writestr(
            "tiny-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("tiny-1.dist-info/RECORD", "")


def pip_command(index: str, where: Path) -> list[str]:
    return [
        sys.executable, "-m", "pip", "--isolated", "--no-cache-dir", "--disable-pip-version-check",
        "install", "-q", "--cert", str(HERE / "ca.pem"), "--target", str(where),
        "--index-url", index, "--no-warn-script-location", "--root-user-action", "ignore", "tiny",
    ]  # fmt: skip


async def pip(away: Away) -> None:
    make_index()
    for number, more in enumerate(({}, {"https_proxy": PROXY})):
        where = HERE / f"installed{number}"
        await away.fine(*pip_command(f"https://pypi.test:{away.secure}/simple", where), **more)
        assert (where / "tiny.py").exists()
    assert away.faces("pypi.test") == {"carried", "connect"}


@contextmanager
def ssh_server() -> Iterator[list[str]]:
    """A server of our own user's; the options for a client of it."""
    daemon, keygen = program("sshd"), program("ssh-keygen")
    try:
        pwd.getpwuid(os.getuid())
        os.getuid() or pwd.getpwnam("sshd")
    except KeyError:
        raise SkipError("ssh wants an account for its user, and for root one named sshd") from None
    for name in ("host", "mine"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(HERE / name)], check=True)
    shutil.copy(HERE / "mine.pub", HERE / "authorized")
    port = free_port()
    (HERE / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {HERE}/host\nAuthorizedKeysFile {HERE}/authorized\n"
        f"StrictModes no\nUsePAM no\nPidFile none\n"
    )
    if not os.getuid():
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd as root will not start without it
    process = subprocess.Popen(
        [daemon, "-D", "-e", "-f", str(HERE / "sshd_config")], stderr=subprocess.DEVNULL
    )
    options = (
        "StrictHostKeyChecking=no",
        f"UserKnownHostsFile={HERE}/known",
        "BatchMode=yes",
        "LogLevel=ERROR",
    )
    try:
        wait_listening(process, port)
        yield ["-F", "none", "-p", str(port), *(f"-o{option}" for option in options)]
    finally:
        process.terminate()
        process.wait()


def wait_listening(server: "subprocess.Popen[bytes]", port: int) -> None:
    def is_heard() -> bool:
        if server.poll() is not None:
            raise SkipError(f"{server.args!r} does not run here")
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    wait_until(is_heard)


async def ssh() -> None:
    """A whole session of ssh, with a server of our own user's."""
    client = program("ssh")

    async def probe(away: Away) -> None:
        said = await away.fine(client, *options, f"{name}@a.test", "echo through")
        assert said == "through\n"
        code, said = await away.run(client, *options, f"{name}@evil.test", "echo through")
        assert code == 255 and "not known" in said, said

    with ssh_server() as given:
        options, name = [*given, "-i", f"{HERE}/mine"], getpass.getuser()
        await with_away(probe, int(given[given.index("-p") + 1]))


@contextmanager
def postgres() -> Iterator[int]:
    """A server of a database, whose protocol is its own: the first bytes are neither TLS nor HTTP."""
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    try:  # the server will not run as root, nor for a user without an account
        user = pwd.getpwuid(os.getuid()) if os.getuid() else pwd.getpwnam("postgres")
    except KeyError:
        versions = []
    if not versions:
        raise SkipError("there is no PostgreSQL server that this user may start")
    (HERE / "db").mkdir()
    port, by = free_port(), user.pw_uid if not os.getuid() else None
    if by is not None:
        os.chown(HERE / "db", user.pw_uid, user.pw_gid)
    subprocess.run(
        [versions[-1] / "initdb", "-A", "trust", "-U", "me", "-D", HERE / "db"],
        check=True,
        user=by,
        stdout=subprocess.DEVNULL,
    )
    process = subprocess.Popen(
        [versions[-1] / "postgres", "-D", HERE / "db", "-p", str(port), "-k", "", "-h", "127.0.0.1"],
        user=by,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_listening(process, port)
        yield port
    finally:
        process.terminate()
        process.wait()


async def psql() -> None:
    client = program("psql")

    async def probe(away: Away) -> None:
        arguments = ("-h", "a.test", "-p", str(port), "-U", "me", "-At", "-c", "select 6 * 7", "postgres")
        for _attempt in range(50):
            code, said = await away.run(client, *arguments)
            if not code:
                break
            await asyncio.sleep(0.2)
        assert said == "42\n", said

    with postgres() as port:
        await with_away(probe, port)


AWAY = {probe.__name__: probe for probe in (curl, no_packet, python, node, java, git, pip)}
WITH_A_SERVER = {probe.__name__: probe for probe in (ssh, psql)}


def main(name: str) -> int:
    try:
        asyncio.run(with_away(AWAY[name]) if name in AWAY else WITH_A_SERVER[name]())
    except SkipError as skip:
        print(skip)
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
