"""Ways to have more of a grant than was granted, found by attack; each runs in a child, as two users."""

import os
import threading
from contextlib import suppress

from tests.patience import PATIENCE, wait_until
from tests.probe_module import probes_of, run
from tests.session.probes.write_questions import (
    DIRECTORY,
    HOME,
    NO,
    ONCE,
    OUT,
    SESSION,
    Person,
    callers,
    opened,
    python,
    read,
    write,
)

import pinfold
from pinfold.model.request import RunCommand

ALWAYS = pinfold.Reply(pinfold.Answer.ALWAYS, pinfold.Reach.DIRECTORY)
PRECIOUS = f"{HOME}/precious"


class Granting(Person):
    """Says yes about one path, and no about every other."""

    def __init__(self, path: str, answer: pinfold.Answer | pinfold.Reply) -> None:
        super().__init__(answer)
        self.path = path

    def __call__(self, question: pinfold.PermissionNeeded) -> pinfold.Answer | pinfold.Reply:
        said = super().__call__(question)
        return said if question.path == self.path else NO


# A directory was granted for good; the same command and one of a later session want more.


def _directory_granted(line: str) -> list[str]:
    """What was asked about after the grant."""
    write(f"{OUT}/a")
    person = Granting(f"{OUT}/a", ALWAYS)
    with opened(person) as session:
        session.run(f"echo hi > {OUT}/a; {line}")
    with opened(person) as session:
        session.run(line)
    return [path for path in person.paths if path != f"{OUT}/a"]


def a_directorys_grant_takes_nothing_from_elsewhere() -> None:
    write(f"{PRECIOUS}/file")
    assert _directory_granted(f"mv {PRECIOUS}/file {OUT}/moved")
    assert read(f"{PRECIOUS}/file") == "old\n" and not os.path.exists(f"{OUT}/moved")


def a_directorys_grant_links_nothing_from_elsewhere() -> None:
    write(f"{HOME}/.profile")
    assert _directory_granted(f"ln {HOME}/.profile {OUT}/linked && echo evil > {OUT}/linked")
    assert read(f"{HOME}/.profile") == "old\n"


def a_directorys_grant_covers_no_protected_name() -> None:
    assert f"{OUT}/.bashrc" in _directory_granted(f"echo evil > {OUT}/.bashrc")
    assert not os.path.exists(f"{OUT}/.bashrc")


def a_directorys_grant_still_takes_what_is_free() -> None:
    write("mine")
    assert _directory_granted(f"mv mine {OUT}/moved; ln {OUT}/moved {OUT}/linked") == []
    assert read(f"{OUT}/linked") == "old\n"


def a_granted_directory_becomes_no_repository() -> None:
    x = f"{OUT}/x"
    make = f"mkdir {x} {x}/objects {x}/refs; echo ref: refs/heads/main > {x}/HEAD; echo > {x}/config"
    assert _directory_granted(make) == []
    assert sorted(os.listdir(x)) == ["config", "objects", "refs"]


MAKES = """
import os, sys, time
out = sys.argv[1]
made = f"{out}/x/config.toml"
open(f"{out}/a", "w").close()
end = time.monotonic() + 2
while time.monotonic() < end:
    for act in (lambda: os.close(os.open(made, 65)), lambda: os.unlink(made)):
        try: act()
        except OSError: pass
"""
MOVES = """
import os, time
end = time.monotonic() + 2
while time.monotonic() < end and not os.path.exists(".cargo/config.toml"):
    for act in (lambda: os.mkdir("x"), lambda: os.rename("x", ".cargo"), lambda: os.rename(".cargo", "x")):
        try: act()
        except OSError: pass
"""


def a_granted_directory_gets_no_protected_name_where_another_session_moves_it() -> None:
    write(f"{OUT}/a")
    person = Granting(f"{OUT}/a", DIRECTORY)
    with opened(person) as one, pinfold.Session([OUT], cwd=OUT, settings={}) as two:
        maker = one.start(["/usr/bin/python3", "-c", MAKES, OUT])
        assert two.run(["/usr/bin/python3", "-c", MOVES]).exit_code == 0
        assert (made := maker.wait()).exit_code == 0, made
    # Where the directory was moved before it was looked at, the protected name is asked about, and refused.
    assert {*person.paths} <= {f"{OUT}/a", f"{OUT}/.cargo/config.toml"}
    assert not os.path.exists(f"{OUT}/.cargo/config.toml")


# One kind of change was granted for the session.


def who_may_change_a_mode_may_not_write() -> None:
    write(f"{OUT}/script")
    person = Person(SESSION)
    with opened(person) as session:
        assert session.run(f"chmod 755 {OUT} {OUT}/script").exit_code == 0
        person.answer = NO
        session.run(f"echo evil > {OUT}/new; echo evil > {OUT}/script; rm {OUT}/script")
        assert os.listdir(OUT) == ["script"] and read(f"{OUT}/script") == "old\n"
        before = len(person.asked)
        assert session.run(f"chmod 755 {OUT}/script").exit_code == 0 and len(person.asked) == before
        # Another mode is another question.
        assert session.run(f"chmod 777 {OUT}/script").exit_code != 0 and len(person.asked) == before + 1


def who_may_delete_may_not_write() -> None:
    write(f"{OUT}/gone")
    person = Person(SESSION)
    with opened(person) as session:
        assert session.run(f"rm {OUT}/gone").exit_code == 0
        person.answer = NO
        session.run(f"echo evil > {OUT}/gone")
        assert not os.path.exists(f"{OUT}/gone")


LINKS = """
import os, sys, threading, time
def wait_for(name):
    while not os.path.exists(name): time.sleep(0.01)
def late():
    wait_for("one-waits")
    try: os.symlink("/evil", sys.argv[1])
    except OSError: pass
thread = threading.Thread(target=late); thread.start()
if not (pid := os.fork()):
    os.symlink("/harmless", sys.argv[1]); os._exit(0)
wait_for("both-wait"); os.kill(pid, 9); thread.join()
"""


def a_link_leads_where_the_person_was_told() -> None:
    withdrawn = threading.Event()

    class Harmless(Person):
        """Says yes to one of two links, when its caller has given way to the other's."""

        def __call__(self, question: pinfold.PermissionNeeded) -> pinfold.Answer | pinfold.Reply:
            self.asked.append(question)
            if "/evil" in question.decision.reasons[0].message:
                return NO
            write("one-waits")
            wait_until(lambda: callers(session) == 2 or len(self.asked) == 2)
            write("both-wait")
            assert withdrawn.wait(PATIENCE)
            return ONCE

        def withdraw(self, _question: pinfold.PermissionNeeded) -> None:
            withdrawn.set()

    person = Harmless()
    with opened(person) as session:
        session.run(python(LINKS, f"{OUT}/link"))
        assert withdrawn.wait(PATIENCE) and len(person.asked) == 2
    assert not os.path.lexists(f"{OUT}/link") or os.readlink(f"{OUT}/link") == "/harmless"


# A grant's path lies where commands make links.


def a_setting_leads_nowhere_by_a_commands_link() -> None:
    os.makedirs(PRECIOUS)
    os.makedirs("sub/build")
    settings = {"filesystem": {"write": [os.path.abspath(each) for each in ("sub/build", "new")]}}
    line = f"mv sub old; mkdir sub; ln -s {PRECIOUS} sub/build; ln -s {PRECIOUS} new"
    for each in (line, f"echo evil > {PRECIOUS}/x"), ("true", f"echo evil > {PRECIOUS}/x"):
        with opened(Person(NO), settings) as session:
            for command in each:
                session.run(command)
            assert os.listdir(PRECIOUS) == []


def a_project_in_another_is_no_link_that_a_command_made() -> None:
    os.makedirs(PRECIOUS)
    os.makedirs("sub/inner")
    swap = "import os, sys; os.rename('sub', 'old'); os.mkdir('sub'); os.symlink(sys.argv[1], 'sub/inner')"
    with pinfold.Session([os.getcwd(), os.path.abspath("sub/inner")], settings={}) as session:
        assert session.run(python(swap, PRECIOUS)).exit_code  # a directory above a root stays
        with suppress(pinfold.ConfinementError):
            session.run(f"echo evil > {PRECIOUS}/x")
    assert os.listdir(PRECIOUS) == []


def a_setting_that_no_command_made_a_link_of_still_leads() -> None:
    os.makedirs(PRECIOUS)
    os.symlink(PRECIOUS, f"{HOME}/by-link")
    with opened(Person(NO), {"filesystem": {"write": [f"{HOME}/by-link"]}}) as session:
        assert session.run(f"echo fine > {PRECIOUS}/x").exit_code == 0


def the_file_tools_hold_no_directory_by_a_commands_link() -> None:
    os.makedirs(PRECIOUS)
    os.makedirs("sub/build")
    settings = {"filesystem": {"write": [os.path.abspath("sub/build")]}}
    with opened(Person(ONCE), settings) as session:
        session.run(f"mv sub old; mkdir sub; ln -s {PRECIOUS} sub/build")
        session.files.entries(".")
        session.run("rm sub/build; mkdir sub/build")
        with suppress(pinfold.FileRefused):
            session.files.write("sub/build/x", "evil")
    assert os.listdir(PRECIOUS) == []


def a_call_is_asked_about_by_where_its_path_leads() -> None:
    os.makedirs(PRECIOUS)
    person = Person(pinfold.Answer.SESSION)
    wanted = pinfold.SandboxPolicy(additional_readwrite_paths=(os.path.abspath("build"),))
    with opened(person) as session:
        session.run(f"ln -s {PRECIOUS} build")
        session.run(RunCommand(f"echo x > {PRECIOUS}/x", policy=wanted))
        assert [widening.value for widening in person.asked[0].decision.widening] == [PRECIOUS]


def a_call_that_was_granted_a_directory_gets_no_link() -> None:
    os.makedirs(PRECIOUS)
    os.makedirs("build")

    def swap(_path: str) -> None:
        os.rename("build", "old")
        os.symlink(PRECIOUS, "build")

    wanted = pinfold.SandboxPolicy(additional_readwrite_paths=(os.path.abspath("build"),))
    with opened(Person(ONCE, swap)) as session:
        session.run(RunCommand(f"echo x > {PRECIOUS}/x", policy=wanted))
    assert os.listdir(PRECIOUS) == []


GRANTED = probes_of(globals())

if __name__ == "__main__":
    run(globals())
