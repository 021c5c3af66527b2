"""Whether a pen lends another what that may not have.

For each ordered pair of policies, a command of one gives all that it has to a command of the other, which
tries everything (`pairs_inside`). A probe has the pairs of one giver. It runs in a child of the tests, as
root and as an ordinary user.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from tests.escape.probes import pairs_inside
from tests.patience import wait_until
from tests.probe_module import PYTHON, probes_of, run
from tests.processes import wardens_of

import pinfold
from pinfold.model.events import Output

HOME = os.environ.get("HOME", "")
WORK, OUT = os.getcwd(), f"{HOME}/outside"
GRANTED, OTHER, SIGNS = f"{HOME}/granted", f"{HOME}/other", f"{HOME}/signs"
TURNED = f"{HOME}/turned"
"""A file that is hidden to make a pen another."""
VAULT, LATER = f"{WORK}/vault", f"{WORK}/later"
DIRECTORIES = (
    f"{WORK}/ordinary",
    VAULT,
    LATER,
    f"{WORK}/.git",
    f"{WORK}/.git/hooks",
    f"{WORK}/.vscode",
    OUT,
    GRANTED,
    OTHER,
    f"{HOME}/.ssh",
)
MACHINE = ("/run", "/tmp", "/var/tmp", "/dev", "/dev/shm", "/proc", "/sys/kernel/debug", "/sys/firmware")
PLAIN: dict[str, Any] = {
    "sandbox": {"policy": "workspace-write"},
    "filesystem": {"git_writes": False, "hide": [], "write": [], "read": []},
}
POLICIES: dict[str, dict[str, dict[str, Any]]] = {
    "plain": {},
    "reading": {"sandbox": {"policy": "read-only"}},
    "git": {"filesystem": {"git_writes": True}},
    "hiding": {"filesystem": {"hide": [VAULT, f"{LATER}/*"]}},
    "granted": {"filesystem": {"write": [GRANTED]}},
    "shown": {"filesystem": {"read": [f"{HOME}/.ssh"]}},
    "wider": {},
}
"""By name, what each has of its own. In `wider` the other directory is a project, too."""
FIRST_WORDS = {"give": "ready", "receive": "listening"}


def settings_of(policy: str, *hidden: str) -> dict[str, Any]:
    """A policy's settings, in which more is hidden that no operation is about."""
    own = POLICIES[policy]
    settings = {section: {**values, **own.get(section, {})} for section, values in PLAIN.items()}
    settings["filesystem"]["hide"] = [*settings["filesystem"]["hide"], *hidden]
    return settings


def prepare() -> None:
    """Every target, as it was. What is there already keeps its inode, and with it its mounts."""
    for directory in DIRECTORIES:
        os.makedirs(directory, exist_ok=True)
        for name in pairs_inside.VICTIMS:
            if not os.path.exists(f"{directory}/{name}"):
                with open(f"{directory}/{name}", "w") as file:
                    file.write(f"what {directory}/{name} says\n")
        for name in ("renamed", "linked", "created", "pointing"):
            with suppress(FileNotFoundError):
                os.unlink(f"{directory}/{name}")
        with suppress(FileNotFoundError):
            os.rmdir(f"{directory}/made")
    for name in ("objects", "refs"):
        os.makedirs(f"{WORK}/.git/{name}", exist_ok=True)
    for path, text in ((f"{WORK}/.git/HEAD", "ref: refs/heads/main\n"), (f"{WORK}/.git/config", "")):
        if not os.path.exists(path):
            with open(path, "w") as file:
                file.write(text)
    with open(TURNED, "w"):
        pass
    shutil.rmtree(SIGNS, ignore_errors=True)
    os.mkdir(SIGNS)


def sign(name: str, text: str = "") -> None:
    """What those inside wait for: whole when it is there."""
    with open(f"{SIGNS}/.{name}", "w") as file:
        file.write(text)
    os.rename(f"{SIGNS}/.{name}", f"{SIGNS}/{name}")


class Actor:
    """A command of the rig, under way."""

    def __init__(self, session: pinfold.Session, role: str) -> None:
        machine = "\n".join(f"{path} {pairs_inside.which(path)}" for path in MACHINE if os.path.isdir(path))
        arguments = (role, WORK, "\n".join(DIRECTORIES), machine, SIGNS)
        self.execution = session.start(
            [PYTHON, "-E", "-s", f"{HOME}/pairs_inside.py", *arguments], timeout=60
        )
        self.events = self.execution.events()
        self.text = ""
        self.errors = ""

    def says(self, word: str) -> str:
        """What it says after a word; fails if it ends without."""
        said = self.may_say(word)
        assert said is not None, (word, self.text, self.errors, self.execution.wait())
        return said

    def may_say(self, word: str) -> str | None:
        while True:
            for line in self.text.splitlines(keepends=True):
                if line.endswith("\n") and line.split(" ", 1)[0].strip() == word:
                    return line[len(word) :].strip()
            event = next(self.events, None)
            if event is None:
                return None
            if isinstance(event, Output):
                self.text += event.data.decode() if event.stream == "stdout" else ""
                self.errors += event.data.decode() if event.stream == "stderr" else ""

    def end(self) -> None:
        self.execution.cancel()
        for _ in self.events:
            pass


@contextmanager
def opened(policy: str) -> Iterator[pinfold.Session]:
    with pinfold.Session([WORK], settings={}, overrides=settings_of(policy)) as session:
        if policy == "wider":
            session.add_project(OTHER)
        yield session


def turn_to(session: pinfold.Session, policy: str) -> None:
    """The next command has this policy, in a pen of its own."""
    if policy == "wider":
        session.add_project(OTHER)
    session.change(settings_of(policy, TURNED))


def both(session: pinfold.Session, order: tuple[str, str], turn: Callable[[], object]) -> dict[str, Any]:
    """Starts two commands, with a turn between them: by role, each and what it said first."""
    actors: dict[str, Any] = {}
    for role in order:
        actors[role] = actor = Actor(session, role)
        actors[FIRST_WORDS[role]] = actor.says(FIRST_WORDS[role])
        if role == order[0]:
            turn()
    return actors


def meet(giver: str, receiver: str, kills: bool) -> dict[str, Any]:
    """What the receiver tells, once it has tried all that it got of a giver in a pen that ends."""
    prepare()
    # No project is taken away from a session: a command that may write to fewer begins before.
    order = ("receive", "give") if giver == "wider" != receiver else ("give", "receive")
    policy = {"give": giver, "receive": receiver}
    with opened(policy[order[0]]) as session:
        actors = both(session, order, lambda: turn_to(session, policy[order[1]]))
        return exchange(session, actors, kills)


def exchange(session: pinfold.Session, actors: dict[str, Any], kills: bool = False) -> dict[str, Any]:
    """What the receiver tells. The giver is a command of the session, and its pen ends meanwhile."""
    giver, receiver = actors["give"], actors["receive"]
    pens: Any = session.sandboxes.sandboxed()
    begun = {*wardens_of(pens.keeper.pid)}
    sign("call")
    is_there = giver.may_say("called") is not None
    sign("go", actors["ready"] if is_there else "0")
    receiver.says("tried")
    if kills:
        sign("kill")
    sign("end")
    with suppress(pinfold.ConfinementError):  # its pen ended under it
        for _ in giver.events:
            pass
    # The giver's pen ends, since nothing is in it any more.
    wait_until(lambda: pens.close_idle(0.001) >= 0 and len(begun & {*wardens_of(pens.keeper.pid)}) <= 1)
    sign("ended")
    told: dict[str, Any] = json.loads(receiver.says("told"))
    receiver.end()
    return told


def nothing_is_lent(giver: str) -> None:
    """From a pen of this policy to one of each."""
    furnish()
    for receiver in POLICIES:
        for kills in (False, True) if receiver == giver else (len(receiver) % 2 == 0,):
            told = meet(giver, receiver, kills)
            assert told["found"] == [], (giver, receiver, kills, told["found"][:40], len(told["found"]))
            assert giver == receiver or told["reached"] == [], (
                giver,
                receiver,
                told["reached"],
            )
            require_sense(receiver, told)


def require_sense(policy: str, told: dict[str, Any]) -> None:
    """What a command may do by path is what its policy says: else nothing was compared."""
    may = set(told["may"])
    assert told["tried"] > 1000, told["tried"]
    for operation in ("write", "unlink", "rename", "truncate", "chmod", "utimes", "link"):
        assert (f"{operation} {WORK}/ordinary/{operation}" in may) == (policy != "reading"), (
            operation,
            policy,
        )
        assert (f"{operation} {GRANTED}/{operation}" in may) == (policy == "granted"), (operation, policy)
        assert (f"{operation} {OTHER}/{operation}" in may) == (policy == "wider"), (operation, policy)
        assert (f"{operation} {WORK}/.git/{operation}" in may) == (policy == "git"), (operation, policy)
        assert (
            f"{operation} {OUT}/{operation}" not in may
            and f"{operation} {WORK}/.git/hooks/{operation}" not in may
        )
    assert (f"read {VAULT}/read" in may) == (policy != "hiding")
    assert (f"read {HOME}/.ssh/read" in may) == (policy == "shown")
    assert f"read {OUT}/read" in may


def furnish() -> None:
    shutil.copy(pairs_inside.__file__, f"{HOME}/pairs_inside.py")


# Beside the pairs


def commands_of_one_pen_pass_descriptors() -> None:
    """What the rig finds nothing by, elsewhere, works here."""
    furnish()
    prepare()
    with opened("plain") as session:
        told = exchange(session, both(session, ("give", "receive"), lambda: None))
    assert told["found"] == [] and told["lent"] > 20, told
    assert len(told["by"]) == len(pairs_inside.GIVER) + len(pairs_inside.RECEIVER), told["by"]


def another_session_lends_nothing() -> None:
    furnish()
    for policy in POLICIES:
        prepare()
        with opened("plain") as session, opened(policy) as other:
            actors = {"give": (giver := Actor(other, "give")), "ready": giver.says("ready")}
            actors |= {
                "receive": (receiver := Actor(session, "receive")),
                "listening": receiver.says("listening"),
            }
            told = exchange(other, actors)
        assert told["found"] == [], (policy, told["found"][:40])
        require_sense("plain", told)


def what_is_hidden_later_is_hidden_to_who_held_its_directory() -> None:
    furnish()
    prepare()
    shutil.rmtree(LATER)
    os.mkdir(LATER)
    with opened("hiding") as session:
        actor = Actor(session, "hold")
        actor.says("holding")
        prepare()
        session.run("true")
        sign("go", f"{LATER}/read")
        told = json.loads(actor.says("told"))
        actor.end()
    assert told["found"] == [] and f"read {LATER}/read" not in told["may"] and told["tried"] > 1000, told


PAIRS = {f"a_pen_of_{policy}_lends_nothing": partial(nothing_is_lent, policy) for policy in POLICIES}
HELPERS = (
    "prepare",
    "settings_of",
    "sign",
    "opened",
    "turn_to",
    "both",
    "meet",
    "exchange",
    "nothing_is_lent",
    "require_sense",
    "furnish",
)
PROBES = (*PAIRS, *probes_of(globals(), *HELPERS))

if __name__ == "__main__":
    run({**globals(), **PAIRS})
