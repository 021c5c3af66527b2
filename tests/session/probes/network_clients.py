"""Programs that people use, in a pen with named hosts: each function runs in a child, as root and another.

Run one by hand, in a directory of your own beside a `home`:
`python -m tests.session.probes.network_clients NAME`.
"""

import getpass
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pinfold
from pinfold.model.policy import SandboxPolicy
from pinfold.model.request import RunCommand
from tests.network.probes.programs import make_index, pages, pip_command, postgres, program, ssh_server
from tests.probe_module import PYTHON, probes_of
from tests.session.fake_internet import ALLOWED, Machine
from tests.session.probes.hosts import PLAIN, connections, fine, main_of, opened, python
from tests.session.probes.run import Says

HERE = Path.cwd()


def ssh(_: Machine) -> None:
    """A session of its own, and git over it; nothing sets a proxy command."""
    by, git, me = program("ssh"), program("git"), getpass.getuser()
    subprocess.run([git, "init", "-q", "--bare", "files/r.git"], check=True)
    with ssh_server() as options, opened() as session:
        port = options[options.index("-p") + 1]
        command = shlex.join([by, *options, "-i", f"{HERE}/mine"])
        assert fine(session, f"{command} {me}@a.test echo through") == "through\n"
        assert fine(session, f"head -c 3000000 /dev/zero | {command} {me}@a.test wc -c") == "3000000\n"
        result = session.run(f"{command} {me}@evil.test echo through")
        assert result.exit_code == 255 and "not known" in result.stderr, result
        over = f"export GIT_SSH_COMMAND={shlex.quote(command)};"
        fine(session, f"{over} {git} clone -q ssh://{me}@git.test:{port}{HERE}/files/r.git /tmp/c")
        who = f"{git} -C /tmp/c -c user.name=n -c user.email=e"
        fine(session, f"{over} {who} commit -q --allow-empty -m one && {who} push -q origin HEAD:x")
        fine(session, f"{over} {who} fetch -q")
    told = {(entry.data["host"], entry.data["face"], entry.data["port"]) for entry in connections()}
    assert {("a.test", "carried", int(port)), ("git.test", "carried", int(port))} <= told, told


@contextmanager
def agent(name: str = "agent") -> Iterator[str]:
    """An ssh agent where the machine's programs have theirs: in its own /tmp."""
    by = program("ssh-agent")
    with tempfile.TemporaryDirectory(prefix="ssh-", dir="/tmp") as directory:
        path = f"{directory}/{name}"
        process = subprocess.Popen([by, "-D", "-a", path], stdout=subprocess.DEVNULL)
        while not os.path.exists(path):
            assert process.poll() is None
        try:
            yield path
        finally:
            process.terminate()
            process.wait()


def an_agent_that_is_granted(_: Machine) -> None:
    """The key stays outside; what signs with it can be asked. Agents that are not granted are not seen."""
    by, add, me = program("ssh"), program("ssh-add"), getpass.getuser()
    with ssh_server() as options, agent() as path:
        os.environ["SSH_AUTH_SOCK"] = path
        subprocess.run([add, "-q", str(HERE / "mine")], check=True)
        for name in ("mine", "mine.pub"):
            (HERE / name).unlink()
        login = f"{shlex.join([by, *options])} {me}@a.test echo through"
        for grant in (path, "$SSH_AUTH_SOCK"):
            network = {"access": "rules", "allow": list(ALLOWED), "unix_sockets": [grant]}
            with pinfold.Session([os.getcwd()], settings={"network": network}) as session:
                assert fine(session, "echo $SSH_AUTH_SOCK") == f"{path}\n"
                assert "ED25519" in fine(session, f"{add} -l")
                assert fine(session, login) == "through\n"
        with opened() as session:
            assert fine(session, "echo $SSH_AUTH_SOCK") == "\n"
            assert session.run(login).exit_code == 255
            assert session.run(f"SSH_AUTH_SOCK={path} {add} -l").exit_code == 2
        # a variable that is not set grants nothing
        del os.environ["SSH_AUTH_SOCK"]
        with pinfold.Session([os.getcwd()], settings={"network": network}) as session:
            assert session.policy.unix_sockets == ()
            assert session.run(f"SSH_AUTH_SOCK={path} {add} -l").exit_code == 2


def an_agent_only_lists_and_signs(_: Machine) -> None:
    """Whatever else is asked of a granted agent is refused and told, however it was granted."""
    add = program("ssh-add")
    other = HERE / "other"
    for key in (HERE / "mine", other):
        subprocess.run([program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with agent("keys") as path:  # it is known by its directory
        os.environ["SSH_AUTH_SOCK"] = path
        subprocess.run([add, "-q", str(HERE / "mine")], check=True)
        kept = subprocess.run([add, "-L"], check=True, capture_output=True).stdout
        network = {"access": "none", "unix_sockets": [path]}
        asking = SandboxPolicy(unix_sockets=(path,))
        for settings, policy in (({"network": network}, None), ({"network": {"access": "none"}}, asking)):
            with pinfold.Session(
                [os.getcwd()], settings=settings, approvers=[Says(pinfold.Answer.ONCE)]
            ) as session:

                def run(line: str) -> pinfold.Result:
                    whole = f"export SSH_AUTH_SOCK={path}; {line}"
                    return session.run(RunCommand(whole, policy=policy))  # noqa: B023

                assert "ED25519" in run(f"{add} -l").stdout
                assert run(f"{add} -T {HERE / 'mine.pub'}").exit_code == 0
                for line, action in (
                    (f"{add} -D", "remove all keys"),
                    (f"{add} -d {HERE / 'mine.pub'}", "remove a key"),
                    (f"cp {other} k; chmod 600 k; {add} k", "add a key"),
                    (f"SSH_ASKPASS=/bin/true SSH_ASKPASS_REQUIRE=force {add} -x", "lock"),
                ):
                    result = run(line)
                    assert result.exit_code != 0, (line, result.stdout, result.stderr)
                    told = [each for each in result.violations if each.operation == f"ssh-agent {action}"]
                    assert told and told[0].path == path and not told[0].grantable, (line, result.violations)
        assert subprocess.run([add, "-L"], check=True, capture_output=True).stdout == kept


def an_agent_by_another_name_only_lists_and_signs(_: Machine) -> None:
    """Neither a directory that a command renames nor a name that says nothing takes the filter away."""
    add = program("ssh-add")
    mine = HERE / "mine"
    subprocess.run([program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(mine)], check=True)
    with agent("keys") as path, tempfile.TemporaryDirectory(dir="/tmp") as plain:
        os.environ["SSH_AUTH_SOCK"] = path
        subprocess.run([add, "-q", str(mine)], check=True)
        with pinfold.Session([os.getcwd()], settings={"network": {"unix_sockets": [path]}}) as session:
            fine(session, f"mv {os.path.dirname(path)} /tmp/other")
            result = session.run(
                f"SSH_AUTH_SOCK=/tmp/other/keys {add} -l && SSH_AUTH_SOCK=/tmp/other/keys {add} -D"
            )
        assert result.exit_code != 0 and "ED25519" in result.stdout, result
        assert "ssh-agent remove all keys" in [each.operation for each in result.violations], (
            result.violations
        )
        other = f"{plain}/socket"
        os.rename(path, other)
        os.symlink(other, path)  # the user's variable names a link
        with pinfold.Session(
            [os.getcwd()], settings={"network": {"unix_sockets": ["$SSH_AUTH_SOCK"]}}
        ) as session:
            result = session.run(f"export SSH_AUTH_SOCK={other}; {add} -l && {add} -D")
        assert result.exit_code != 0 and "ED25519" in result.stdout, result
        assert "ssh-agent remove all keys" in [each.operation for each in result.violations], (
            result.violations
        )


def a_name_that_is_protected_anywhere_is_no_sockets(_: Machine) -> None:
    """An ending that is protected in one directory counts in all; what is called otherwise is bound."""
    code = """
        import socket, sys
        try: socket.socket(socket.AF_UNIX).bind(sys.argv[1])
        except OSError as error: print(type(error).__name__)
    """
    rule = f"{os.getcwd()}/*.sock"
    with pinfold.Session([os.getcwd()], settings={"filesystem": {"protect": [rule]}}) as session:
        for path in ("x.sock", "/tmp/x.sock"):
            result = session.run(python(code, path))
            assert result.stdout == "OSError\n", result
            assert [each.rule for each in result.violations] == [rule], result.violations
        assert fine(session, python(code, "/tmp/x.socket")) == ""


def a_second_agent_only_lists_and_signs(_: Machine) -> None:
    """One that no name and no variable tells of."""
    add = program("ssh-add")
    mine = HERE / "second"
    subprocess.run([program("ssh-keygen"), "-q", "-t", "ed25519", "-N", "", "-f", str(mine)], check=True)
    with agent() as path, tempfile.TemporaryDirectory(dir="/tmp") as plain:
        os.environ["SSH_AUTH_SOCK"] = path
        other = f"{plain}/socket"
        second = subprocess.Popen([program("ssh-agent"), "-D", "-a", other], stdout=subprocess.DEVNULL)
        while not os.path.exists(other):
            assert second.poll() is None
        subprocess.run([add, "-q", str(mine)], check=True, env={**os.environ, "SSH_AUTH_SOCK": other})
        with pinfold.Session([os.getcwd()], settings={"network": {"unix_sockets": [other]}}) as session:
            result = session.run(f"export SSH_AUTH_SOCK={other}; {add} -l && {add} -D")
        second.terminate()
        second.wait()
    assert result.exit_code != 0 and "ED25519" in result.stdout, result
    assert "ssh-agent remove all keys" in [each.operation for each in result.violations], result.violations


SERVER = """
import socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
print(flush=True)
while True:
    client, _ = listening.accept()
    if client.recv(5): client.sendall(b"heard")
    client.close()
"""


def an_agent_that_a_variable_names_later_only_lists_and_signs(_: Machine) -> None:
    """The service's sessions get the variables of each command's shell. These servers look like any other."""
    removes_all = "\\0\\0\\0\\1\\023"
    code = f"""
        import os, socket
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(os.environ["SSH_AUTH_SOCK"])
        sock.sendall(b"{removes_all}")
        print(sock.recv(16))
    """
    sockets = [str(HERE / name) for name in ("one", "two")]
    servers = [
        subprocess.Popen([sys.executable, "-c", SERVER, path], stdout=subprocess.PIPE) for path in sockets
    ]
    try:
        for server in servers:
            assert server.stdout and server.stdout.readline()
        os.mkdir("work")
        for granted in (["$SSH_AUTH_SOCK"], sockets):
            given = [{**os.environ, "SSH_AUTH_SOCK": path} for path in sockets]
            network = {"access": "none", "unix_sockets": granted}
            with pinfold.Session(["work"], settings={"network": network}, environ=given[0]) as session:
                for variables in (*given, given[0]):
                    session.adopt(variables)
                    result = session.run(python(code), environment=variables)
                    assert result.stdout == "b'\\x00\\x00\\x00\\x01\\x05'\n", result
    finally:
        for server in servers:
            server.kill()
            server.wait()


def sockets_by_path(_: Machine) -> None:
    """Streams that are granted; others are refused and told; datagrams even where they are granted."""
    code = """
        import socket, sys
        path, kind = sys.argv[1:]
        try:
            with socket.socket(socket.AF_UNIX, getattr(socket, kind)) as sock:
                if kind == "SOCK_DGRAM": sock.sendto(b"secret", path)
                else:
                    sock.connect(path)
                    sock.sendall(b"hello")
                    print(sock.recv(16))
        except OSError as error: print(type(error).__name__)
    """
    home = os.environ["HOME"]
    granted, other, log = (f"{home}/{name}" for name in ("granted", "other", "log"))
    servers = [socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) for _ in range(2)]
    for server, path in zip(servers, (granted, other), strict=True):
        server.bind(path)
        server.listen()
    logger = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    logger.bind(log)
    logger.setblocking(False)
    settings = {"network": {"access": "none", "unix_sockets": [granted, log]}}
    with pinfold.Session([os.getcwd()], settings=settings) as session:
        execution = session.start(python(code, granted, "SOCK_STREAM"))
        connection, _ = servers[0].accept()
        assert connection.recv(16) == b"hello"
        connection.sendall(b"back")
        assert execution.wait().stdout == "b'back'\n"
        result = session.run(python(code, other, "SOCK_STREAM"))
        assert result.stdout == "PermissionError\n", result
        assert (result.violations[0].operation, result.violations[0].path) == ("connect", other)
        for path in (log, granted, other):
            assert "Error" in fine(session, python(code, path, "SOCK_DGRAM"))
            assert "Error" in fine(session, python(code, log, "SOCK_STREAM"))
        try:
            raise AssertionError(logger.recv(64))
        except BlockingIOError:
            pass
    for sock in (*servers, logger, connection):
        sock.close()


def pip(_: Machine) -> None:
    make_index()
    with pages(True) as secure, opened() as session:
        for number, way in enumerate(("", PLAIN)):
            where = HERE / f"installed{number}"
            command = shlex.join(pip_command(f"https://a.test:{secure}/simple", where))
            fine(session, f"{way}{command}")
            assert (where / "tiny.py").exists()
    faces = {entry.data["face"] for entry in connections() if entry.data["verdict"] == "allow"}
    assert faces == {"connect", "carried"}, faces


def psql(_: Machine) -> None:
    by = program("psql")
    with postgres() as port, opened() as session:
        line = f"{by} -h a.test -p {port} -U me -At -c 'select 6 * 7' postgres"
        for _attempt in range(50):
            if (result := session.run(line)).exit_code == 0:
                break
        assert result.stdout == "42\n", result
        result = session.run(line.replace("a.test", "evil.test"))
        assert result.exit_code == 2 and "evil.test" in result.stderr, result


def urllib(_: Machine) -> None:
    code = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())"
    with pages(True) as secure, pages(False) as plain, opened() as session:
        by = f"SSL_CERT_FILE={HERE}/ca.pem {PYTHON} -c {shlex.quote(code)}"
        for way in ("env ", PLAIN):
            for url in (f"https://a.test:{secure}/", f"http://a.test:{plain}/"):
                assert fine(session, f"{way}{by} {url}").startswith("hello from a.test")
        assert "HTTP Error 403" in session.run(f"env {by} http://evil.test:{plain}/").stderr


def java(_: Machine) -> None:
    by = program("java")
    (HERE / "Get.java").write_text("""
        import java.net.*; import java.net.http.*;
        public class Get { public static void main(String[] a) throws Exception {
            var request = HttpRequest.newBuilder(URI.create(a[0])).build();
            var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.body());
        } }
    """)
    with pages(False) as plain, opened() as session:
        assert "hello from a.test" in fine(session, f"{by} Get.java http://a.test:{plain}/")
        assert session.run(f"{by} Get.java http://evil.test:{plain}/").exit_code


PROBES = probes_of(globals(), "agent")

if __name__ == "__main__":
    sys.exit(main_of(globals(), sys.argv[1]))
