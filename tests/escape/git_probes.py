"""Ways in which a sandboxed command made the host's git run something, closed: each function runs in a child
of the tests, as root and as an ordinary user. Its name says what must hold."""

import os
import subprocess
from typing import Any

from tests.escape.fence_probes import GIT, does, opened, put
from tests.sandbox.probing import probes_of, run

IDENTITY = ("-c", "user.name=x", "-c", "user.email=x@y", "-c", "protocol.file.allow=always")
INNER = ("refs", "objects", "logs", "info", "worktrees", "modules", "gitdir", "refs/heads", "config")
OBEYED = (
    *("hooks/post-checkout", "hooks/post-index-change", "config", "config.worktree"),
    *("info/attributes", "commondir"),
)
RUNS = "#!/bin/sh\ntouch $PWNED\n"
PLANT = """mkdir -p $(dirname {path}); cp evil {path}; mv evil {path}; cp /etc/hostname evil; ln evil {path}
ln -s $PWD/evil {path}; cat evil >> {path}"""
WORK = """echo two >> file; git -c user.name=x -c user.email=x@y commit -qam two; git checkout -qb topic"""


def git(*words: str, where: str = ".", fails: bool = False, **variables: str) -> str:
    """As the host runs it."""
    pwned = {"PWNED": f"{os.environ['HOME']}/pwned", "GIT_TERMINAL_PROMPT": "0"}
    environment = {**os.environ, **pwned, **variables}
    done = subprocess.run(
        ["git", *IDENTITY, *words], cwd=where, env=environment, capture_output=True, text=True, timeout=60
    )
    assert fails or done.returncode == 0, (words, done)
    return done.stdout.strip()


def repository(path: str) -> None:
    git("init", "-q", "-b", "main", path)
    put(f"{path}/file", "one\n")
    git("add", ".", where=path)
    git("commit", "-q", "-m", "first", where=path)


def runs_nothing(where: str, *lines: tuple[str, ...]) -> None:
    for line in lines:
        git(*line, where=where, fails=True)
    assert not os.path.exists(f"{os.environ['HOME']}/pwned"), lines


def git_directories_begin_wherever_the_name_of_a_module_may_end() -> None:
    """Of modules that are there, that are not there yet, and that look as if they lay in another's refs."""
    repository("library")
    repository("super")
    for inner in INNER:
        name, path = f"x-{inner[0]}/{inner}/y", f"sub-{inner.replace('/', '-')}"
        git("submodule", "-q", "add", "--name", name, f"{os.getcwd()}/library", path, where="super")
    git("commit", "-qm", "modules", where="super")
    with opened(GIT, f"{os.getcwd()}/super") as session:
        for inner in INNER:
            there, new = f".git/modules/x-{inner[0]}/{inner}/y", f".git/modules/n/{inner}/z"
            above, sub = os.path.dirname(os.path.dirname(there)), f"sub-{inner.replace('/', '-')}"
            put("super/evil", RUNS)
            does(session, f"mkdir -p {above}/objects {above}/refs; echo ref: refs/heads/x > {above}/HEAD")
            for path in (f"{at}/{name}" for at in (there, new, f"{there}/refs/w") for name in OBEYED):
                does(session, f"chmod +x evil; {PLANT.format(path=path)}")
            does(session, f"rm -rf {above}/HEAD; mv {there} {there}2; mkdir -p {there}/hooks")
            if inner not in ("gitdir", "config"):  # which are protected as they would be in a module `x`
                result = session.run(f"cd {sub}; {WORK}")
                assert result.exit_code == 0 and not result.violations, (inner, result)
                assert git("log", "--oneline", where=f"super/{sub}").count("\n") == 1
            runs_nothing(f"super/{sub}", ("checkout", "main"), ("status",), ("commit", "-mx"))
    made = {name for _, _, names in os.walk("super/.git/modules") for name in names}
    assert not made & {"post-checkout", "post-index-change", "attributes", "config.worktree", "commondir"}


def remotes_are_led_nowhere_by_files_of_old() -> None:
    """`.git/remotes/NAME` may name a helper that git runs, and another place to push to."""
    repository("one")
    settings: dict[str, Any] = {**GIT, "network": {"access": "none"}}
    with opened(settings, f"{os.getcwd()}/one") as session:
        does(session, "git init -q -b main new; git init -q --template= bare-bones; echo URL: x::y > evil")
        for at in (".git", "new/.git", "bare-bones/.git"):
            for name in ("remotes/origin", "branches/origin", "objects/info/http-alternates"):
                above = os.path.dirname(name)
                does(session, f"mkdir a; cp evil a/origin; mv -T a {at}/{above}; ln -s a {at}/{above}")
                does(session, PLANT.format(path=f"{at}/{name}"))
                assert not os.path.exists(f"one/{at}/{name}"), name
        assert does(session, "cd new; git remote add o https://example.com/x; git remote") == "o\n"
    assert os.path.isdir("one/new/.git/branches") is os.path.isdir("one/.git/branches")


PROBES = probes_of(globals(), "git", "repository", "runs_nothing")

if __name__ == "__main__":
    run(globals())
