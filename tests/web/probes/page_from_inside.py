"""What programs in a pen can do about the page: each function runs in a child."""

import os
import socket
import threading
from pathlib import Path

import pinfold
from pinfold.state.web_page import page_directory, page_file
from tests.approval.questions import Person
from tests.network.probes.programs import free_port
from tests.probe_module import probes_of, run
from tests.web.page_world import Asking, Tab, page, question

TRY = """python3 - <<'END'
import socket
for host in ("OWN", "127.0.0.1", "localhost", "0.0.0.0", "::ffff:127.0.0.1", "own.localhost"):
    try:
        with socket.create_connection((host, PORT), 20) as sock:
            sock.settimeout(20)
            said = f"GET / HTTP/1.1\\r\\nHost: {host.removeprefix('::ffff:')}:PORT\\r\\n"
            sock.sendall(f"{said}Connection: close\\r\\n\\r\\n".encode())
            print("HEARD" if b"pinfold" in b"".join(iter(lambda: sock.recv(10000), b"")) else "silence")
    except OSError as error:
        print(type(error).__name__)
END"""
BY_PROXY = """for name in OWN 127.0.0.1 localhost; do
curl -s -m 5 --noproxy '' -x "$http_proxy" http://$name:PORT/; curl -s -m 5 --noproxy '' -p -x "$http_proxy" http://$name:PORT/
done"""


def page_is_out_of_reach() -> None:
    """Whatever the rules lend, whoever says yes, and whenever it was opened."""
    home = Path.home()
    with page(home) as (opened, environ):
        port, own = opened.place.port, opened.place.host
        for network in (
            {
                "access": "all",
                "allow": [
                    f"{own}:{port}",
                    f"localhost:{port}",
                    f"127.0.0.1:{port}",
                    f"0.0.0.0:{port}",
                    "127.0.0.0/8",
                ],
            },
            {"access": "ask"},
        ):
            given = {**os.environ, **environ}
            with pinfold.Session(
                [os.getcwd()], settings={"network": network}, environ=given, approvers=[Person()]
            ) as session:
                for line in (TRY, BY_PROXY):
                    result = session.run(line.replace("PORT", str(port)).replace("OWN", own))
                    assert "HEARD" not in result.stdout and "<title>" not in result.stdout, result.stdout
                seen = session.run(f"cat '{page_directory(environ)}'/*; ls -A '{page_directory(environ)}'")
                assert opened.place.token not in seen.stdout and "questions" not in seen.stdout, seen.stdout


def a_page_that_is_opened_later_is_out_of_reach_too() -> None:
    home = Path.home()
    port = free_port()
    server = socket.create_server(("127.0.0.1", port))
    serving = threading.Thread(target=_serve, args=(server,), daemon=True)
    serving.start()
    settings = {"network": {"access": "rules", "allow": [f"localhost:{port}"]}}
    with pinfold.Session([os.getcwd()], settings=settings) as session:
        line = TRY.replace("PORT", str(port))
        told = session.run(line)
        assert "HEARD" in told.stdout, told  # a port that is lent is reached
        server.shutdown(socket.SHUT_RDWR)
        serving.join()
        server.close()
        with page(home, port) as (opened, _):
            assert opened.place.port == port
            later = session.run(line + "\n" + line.replace("OWN", opened.place.host)).stdout
            assert "HEARD" not in later, later


def a_page_whose_file_is_damaged_is_out_of_reach_too() -> None:
    """Which port it has is not known then: none of loopback is lent, until the file is well or gone."""
    with page(Path.home()) as (opened, environ):
        file, place = Path(page_file(environ)), opened.place
        whole = file.read_bytes()
        settings = {"network": {"access": "rules", "allow": [f"localhost:{place.port}", "127.0.0.0/8"]}}
        with pinfold.Session([os.getcwd()], settings=settings, environ={**os.environ, **environ}) as session:
            for damage in (b"", whole[: len(whole) // 2], b"{}", b'{"host":"","port":"1","token":""}', None):
                file.unlink()
                file.write_bytes(damage) if damage is not None else file.mkdir()
                for line in (TRY, BY_PROXY):
                    told = session.run(line.replace("PORT", str(place.port)).replace("OWN", place.host))
                    assert "HEARD" not in told.stdout and "<title>" not in told.stdout, (damage, told.stdout)
            file.rmdir()
            file.write_bytes(whole)


def _serve(server: socket.socket) -> None:
    while True:
        try:
            client, _ = server.accept()
        except OSError:
            return
        with client:
            client.recv(1000)
            client.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\npinfold")


def agent_cannot_approve_itself() -> None:
    """A socket of the page's that somebody lent by mistake takes questions, and gives nobody an answer."""
    home = Path.home()
    with page(home) as (opened, environ):
        asking = Asking(environ, question())
        (shown,) = Tab(opened).questions()
        path = f"{page_directory(environ)}/questions"
        settings = {"network": {"unix_sockets": [path]}}
        with pinfold.Session([os.getcwd()], settings=settings) as session:
            said = f'{{"id": "{shown["id"]}", "given": {{"answer": "once"}}}}'
            script = (
                f"import socket; s = socket.socket(socket.AF_UNIX); s.connect({path!r}); s.send(b'{said}\\n')"
            )
            session.run(["python3", "-c", script])
        assert asking.reply is None and len(Tab(opened).questions()) == 1


def a_session_is_answered_at_the_page() -> None:
    """From a question of a fenced command to the yes that lets it go on."""
    from pinfold.web import WebApprover

    with page(Path.home()) as (opened, environ):
        settings = {"commands": {"ask": ["touch made"]}}
        with pinfold.Session([os.getcwd()], settings=settings, approvers=[WebApprover(environ)]) as session:
            tab = Tab(opened)
            for answer, exists in (("no", False), ("once", True)):
                thread = threading.Thread(target=session.run, args=("touch made",))
                thread.start()
                (shown,) = tab.questions()
                assert tab.answer(shown["id"], answer)[0] == 200
                thread.join(30)
                assert os.path.exists("made") is exists


PENS: list[str] = probes_of(globals())

if __name__ == "__main__":
    run(globals())
