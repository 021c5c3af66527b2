"""What holds of learning from a run, and of reads that are noted: each runs in a child, as root and not."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pinfold
from pinfold.policy.learning import ProposedSetting
from pinfold.session.learn import OTHERWISE, UNSEEN, Learned, Listener, accept, chosen, learn
from pinfold.state.directory import approvals_file
from tests.probe_module import probes_of, run

HOME = os.environ.get("HOME", "")
OUT = f"{HOME}/out"


def write(path: str, text: str = "secret\n") -> str:
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    return path


def noting(settings: dict[str, Any] | None = None, **given: Any) -> pinfold.Session:
    return pinfold.Session([os.getcwd()], settings=settings or {}, notes_reads=True, **given)


def reads(result: pinfold.Result) -> dict[str, str]:
    return {each.path: each.rule for each in result.violations if each.operation == "read"}


# Reads


def a_read_of_something_hidden_is_told_with_its_rule() -> None:
    key, work = write(f"{HOME}/.ssh/id"), os.getcwd()
    write(".env")
    write(".pinfoldignore", ".env\n")
    write("plans/secret.txt")
    os.symlink(key, "link")
    os.symlink(f"{HOME}/.ssh", "keys")
    with noting({"filesystem": {"hide": ["plans"]}}) as session:
        for line, path, rule in (
            ("cat .env", f"{work}/.env", "an ignore file"),
            ("cat < .env", f"{work}/.env", "an ignore file"),
            ("cat plans/secret.txt", f"{work}/plans/secret.txt", "plans"),
            ("cd plans && cat secret.txt", f"{work}/plans/secret.txt", "plans"),
            ("ls ~/.ssh", f"{HOME}/.ssh", f"{HOME}/.ssh"),
            ("cat ~/.ssh/id", key, f"{HOME}/.ssh"),
            ("cat ~/.ssh/deep/er", f"{HOME}/.ssh/deep/er", f"{HOME}/.ssh"),
            ("cat link", key, f"{HOME}/.ssh"),
            ("cat keys/id", key, f"{HOME}/.ssh"),
            ("cat keys/../.ssh/./id", key, f"{HOME}/.ssh"),
        ):
            result = session.run(line)
            assert reads(result) == {path: rule}, (line, result)
            assert "secret" not in result.stdout.replace("secret.txt", ""), line
            (told,) = result.violations
            assert told.origin and not told.grantable and told.program in ("cat", "bash", "ls"), told


def a_read_of_anything_else_is_told_by_nobody() -> None:
    write("here", "open\n")
    with noting() as session:
        result = session.run(
            "cat here /etc/hostname; cat nowhere /nowhere/at/all; ls / > /dev/null; python3 -c 'import json'"
        )
        assert "open" in result.stdout and not result.violations, result
        # What writes is judged as ever.
        result = session.run(f"echo new > made; cat made; echo x > {HOME}/outside")
        assert result.stdout == "new\n" and [each.operation for each in result.violations] == ["open"]


def what_is_hidden_while_a_command_runs_is_noted_too() -> None:
    write(".pinfoldignore", "late.env\n")
    with noting() as session:
        execution = session.start("until cat late.env 2> errors; grep -q denied errors; do sleep 0.1; done")
        write("late.env")
        result = execution.wait()
        assert reads(result) == {f"{os.getcwd()}/late.env": "an ignore file"}, result


def a_path_that_is_swapped_while_it_is_looked_at_shows_nothing_hidden() -> None:
    write(f"{HOME}/.ssh/id")
    write("open", "open\n")
    program = (
        "import os, threading; from contextlib import suppress\n"
        "def swap():\n"
        "    while not done:\n"
        "        for target in ('open', os.path.expanduser('~/.ssh/id')):\n"
        "            os.symlink(target, 'next'); os.rename('next', 'path')\n"
        "done, seen = [], {''}; os.symlink('open', 'path')\n"
        "thread = threading.Thread(target=swap); thread.start()\n"
        "for _ in range(3000):\n"
        "    with suppress(OSError): seen.add(open('path').read())\n"
        "done.append(1); thread.join(); print(sorted(seen))\n"
    )
    with noting() as session:
        result = session.run(["/usr/bin/python3", "-c", program])
        assert result.stdout == "['', 'open\\n']\n", result
        assert set(reads(result)) <= {f"{HOME}/.ssh/id"}, result


def reads_are_not_noted_unless_asked_for() -> None:
    write(f"{HOME}/.ssh/id")
    with pinfold.Session([os.getcwd()], settings={}) as session:
        assert not session.run("cat ~/.ssh/id").violations
        assert "notereads" not in session.sandboxes.sandboxed().plan(session.policy)


# Learning


class Says:
    """Answers by path or host; no to everything else."""

    name = "a test"

    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __call__(self, question: pinfold.PermissionNeeded) -> Any:
        what = question.host or question.path or "command"
        self.asked.append(what)
        found = (answer for name, answer in self.answers.items() if what.endswith(name))
        return next(found, pinfold.Answer.NO)


def learning(
    line: str, person: pinfold.Approver | None = None, text: str = "", **overrides: Any
) -> tuple[Learned, pinfold.Session, pinfold.Result]:
    """What is learned of a line with these settings; the session is closed again."""
    file = write(f"{HOME}/.config/pinfold/settings.toml", text)
    listener = Listener(person or Nobody())
    with pinfold.Session([os.getcwd()], settings=file, approvers=[listener], notes_reads=True,
                         overrides=overrides) as session:  # fmt: skip
        result = session.run(line)
        learned = learn(session, listener, result.violations)
    assert not os.path.exists(file) or read(file) == text, "the settings were written"
    return learned, session, result


class Nobody:
    name = "nobody"

    def __call__(self, question: pinfold.PermissionNeeded) -> None:
        return None

    def is_there(self) -> bool:
        return False


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


def told(learned: Learned) -> dict[str, str]:
    return {left.record.paths[0]: left.why for left in learned.proposal.not_proposed}


def everything() -> str:
    """A line that wants one of each."""
    write(f"{HOME}/.ssh/id")
    write(f"{OUT}/old", "old\n")
    subprocess.run(["git", "init", "-q", "."], check=True)
    server = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{HOME}/server')"
    return (
        f"mkdir {HOME}/new; echo 1 > {HOME}/new/a; echo 1 > {OUT}/old; echo 1 > {HOME}/plain; rm {OUT}/old;"
        f"echo 1 > {HOME}/.bashrc; mkdir .vscode .pinfold; cat {HOME}/.ssh/id; git add -A; "
        f'python3 -c "{server}"; curl -sS -m 9 http://nowhere.invalid/; echo end'
    )


@contextmanager
def listening() -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{HOME}/server")
        server.listen()
        yield


def tree(top: str) -> dict[str, object]:
    """What is there, but for what pinfold remembers of runs."""
    found: dict[str, object] = {}
    for directory, names, files in os.walk(top):
        names[:] = [name for name in names if name not in (".local", ".config")]
        for name in (*names, *files):
            status = os.lstat(os.path.join(directory, name))
            found[os.path.join(directory, name)] = (status.st_mode, status.st_size, status.st_mtime_ns)
    return found


def learning_widens_nothing() -> None:
    """Nobody said yes: so all is as it was, the settings too, and what is remembered of answers."""
    line = everything()
    with listening():
        before = {**tree(HOME), **tree(os.getcwd())}
        learned, _, result = learning(line)
        assert result.stdout.endswith("end\n") and "secret" not in result.stdout
        assert {**tree(HOME), **tree(os.getcwd())} == before
        assert not os.path.exists(approvals_file(os.environ))
        # The same run without learning goes as far, and is told of less.
        with pinfold.Session([os.getcwd()], settings={}) as session:
            usual = session.run(line)
        assert (usual.stdout, usual.stderr) == (result.stdout, result.stderr)
        noted = {(each.operation, each.path) for each in result.violations}
        fewer = {(each.operation, each.path) for each in usual.violations}
        assert {operation for operation, _ in noted - fewer} == {"read", "unlink"}, (noted, usual)
        assert fewer < noted
    assert learned.proposal.entries, learned


def what_is_learned_is_the_least_that_is_enough() -> None:
    line = everything()
    with listening():
        learned, _, _ = learning(line, text="# mine\n[filesystem]\nhide = []  # kept\n")
        assert learned.proposal.entries == (
            ProposedSetting("filesystem.git_writes", "true"),
            ProposedSetting("filesystem.write", "~/new"),
            ProposedSetting("filesystem.write", "~/out"),
            ProposedSetting("network.allow", "nowhere.invalid:80"),
            ProposedSetting("network.unix_sockets", "~/server"),
        ), learned
        work = os.getcwd()
        assert set(told(learned)) == {
            f"{HOME}/plain", f"{HOME}/.bashrc", f"{HOME}/.ssh/id", f"{work}/.vscode", f"{work}/.pinfold",
        }  # fmt: skip
        assert learned.after.startswith("# mine\n[filesystem]\nhide = []  # kept\n"), learned.after
        assert learned.proposal.new_directories == (f"{HOME}/new",)
        assert accept(learned) and read(learned.file) == learned.after
        # And from then on it passes, without a question.
        with pinfold.Session([work], settings=learned.file) as session:
            result = session.run(line)
        left = {each.path for each in result.violations if not each.path.startswith("nowhere")}
        assert left == set(told(learned)) - {f"{HOME}/.ssh/id"}, result
    assert read(f"{HOME}/new/a") == "1\n" and not os.path.exists(f"{OUT}/old")
    assert not accept(learned), "it is there already"


def a_persons_answers_are_what_is_proposed() -> None:
    whole = pinfold.Reply(pinfold.Answer.SESSION, pinfold.Reach.DIRECTORY)
    write(f"{HOME}/cache/x")
    once = pinfold.Answer.ONCE
    person = Says(**{"/plain": once, "/cache/a": whole, "yes.invalid": once, "/.bashrc": once})
    learned, _, result = learning(
        f"echo 1 > {HOME}/plain; echo 1 > {HOME}/cache/a; echo 1 > {HOME}/cache/b; echo 1 > {HOME}/no;"
        f"echo 1 > {HOME}/.bashrc; curl -sS -m 9 http://yes.invalid/; curl -sS -m 9 http://no.invalid/",
        person,
    )
    assert learned.proposal.entries == (
        ProposedSetting("filesystem.write", "~/cache"),
        ProposedSetting("filesystem.write", "~/plain"),
        ProposedSetting("network.allow", "yes.invalid:80"),
    ), (learned, result)
    left = told(learned)
    assert left[f"{HOME}/no"] == left["no.invalid:80"] == "you said no", left
    assert left[f"{HOME}/.bashrc"].startswith("it is protected"), left
    assert read(f"{HOME}/.bashrc") == "1\n" and not os.path.exists(f"{HOME}/no")


def sockets_that_a_pen_does_not_show_are_learned() -> None:
    def connecting(path: str) -> str:
        program = f"import socket; socket.socket(socket.AF_UNIX).connect('{path}')"
        return f'python3 -c "{program}" || true'

    learned, _, result = learning(connecting("/run/nobody-listens-here"))
    assert not learned.proposal.entries and not learned.proposal.not_proposed and not result.violations
    if os.geteuid():
        return  # nobody else may make one there
    for name, entries in (("learn", 1), ("docker", 0)):
        directory = f"/run/pinfold-test-{os.getpid()}"
        os.mkdir(directory)
        path = f"{directory}/{name}.sock"
        try:
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(path)
                server.listen()
                learned, _, result = learning(connecting(path.replace("/run/", "/var/run/")))
        finally:
            os.unlink(path)
            os.rmdir(directory)
        assert len(learned.proposal.entries) == entries, (learned, result)
        assert (
            ProposedSetting("network.unix_sockets", path) in learned.proposal.entries or told(learned)[path]
        )


def a_command_that_would_have_been_asked_about_is_learned() -> None:
    settings = "[sandbox]\nauto_allow = false\n"
    learned, _, result = learning("touch made", text=settings)
    assert not result.ran and learned.proposal.entries == (ProposedSetting("commands.allow", "touch"),), (
        learned
    )
    assert UNSEEN in learned.notes
    accept(learned)
    with pinfold.Session([os.getcwd()], settings=learned.file) as session:
        assert session.run("touch made").exit_code == 0
    # What is never decided by a list is told.
    learned, _, _ = learning("touch made", text='mode = "ask_every_time"\n')
    assert (
        not learned.proposal.entries and "needs a person's approval" in learned.proposal.not_proposed[0].why
    )


def what_other_settings_would_not_honour_is_not_proposed() -> None:
    subprocess.run(["git", "init", "-q", "."], check=True)
    write(".pinfold/settings.toml", "[filesystem]\ngit_writes = false\n")
    write("x")
    learned, _, _ = learning(f"git add x; mkdir {HOME}/new")
    assert learned.proposal.entries == (ProposedSetting("filesystem.write", "~/new"),), learned
    assert told(learned) == {"filesystem.git_writes: true": OTHERWISE}


def some_of_it_can_be_chosen() -> None:
    write(f"{HOME}/a")
    write(f"{HOME}/b")
    learned, session, _ = learning(f"echo 1 > {HOME}/a; echo 1 > {HOME}/b; mkdir {HOME}/c")
    some = chosen(session, learned, learned.proposal.entries[:1])
    assert some.after == '[filesystem]\nwrite = ["~/a"]\n' and some.proposal.new_directories == ()
    accept(some)
    assert read(some.file) == some.after and not os.path.exists(f"{HOME}/c")


LEARNINGS = probes_of(
    globals(), "write", "noting", "reads", "learning", "read", "told", "everything", "listening", "tree"
)

if __name__ == "__main__":
    run(globals())
