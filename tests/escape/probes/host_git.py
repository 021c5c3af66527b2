"""Ways in which a sandboxed command made the host's git run something, closed: each function runs in a child
of the tests, as root and as an ordinary user. Its name says what must hold."""

import os
import subprocess
from functools import partial
from typing import Any

from tests.escape.probes.sandbox import GIT, does, opened, put, read
from tests.patience import wait_until
from tests.probe_module import probes_of, run

import pinfold

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


def content(path: str) -> str:
    return read(path) if os.path.exists(path) else ""


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


CONFIGURED = {
    # Each with the file that git runs or includes by it, in the top of the working tree.
    "core.hooksPath=.githooks": (".githooks/pre-commit", ".githooks/post-index-change"),
    "core.fsmonitor=tools/watch": ("tools/watch",),
    "diff.w.command=python3 -I watch.py": ("watch.py",),
    "core.sshCommand=sh -c './ssh -v $@'": ("ssh",),
    "core.editor=$(git rev-parse --show-toplevel)/edit": ("edit",),
    "core.pager=LESS=x ./page | cat": ("page",),
    "pager.log=./pages/log": ("pages/log",),
    "core.attributesFile=attributes": ("attributes",),
    "filter.x.clean=env A=b ./filters/clean %f": ("filters/clean",),
    "filter.x.process=./filters/process": ("filters/process",),
    "diff.x.textconv=node ./text.js": ("text.js",),
    "merge.x.driver=./drivers/merge %O %A %B": ("drivers/merge",),
    "gpg.ssh.program=./sign": ("sign",),
    "credential.helper=!./credentials": ("credentials",),
    "credential.https://example.com.helper=!f() { ./more; }; f": ("more",),
    "alias.x=!./script": ("script",),
    "alias.y=!cd src && ../z": (),
    "difftool.x.cmd=./difftool": ("difftool",),
    "trailer.x.command=./trailer": ("trailer",),
    "include.path=../shared.gitconfig": ("shared.gitconfig",),
    "includeIf.onbranch:never.path=../branch.gitconfig": ("branch.gitconfig",),
}


def git_runs_nothing_that_was_written_inside() -> None:
    """Whatever the repository's configuration makes it run or include: existing or not."""
    repository("library")
    repository("super")
    git("submodule", "-q", "add", f"{os.getcwd()}/library", "sub", where="super")
    repository("super/nested")
    put("super/src/code.py")
    for where in ("super", "super/sub", "super/nested"):
        for setting in CONFIGURED:
            key, _, value = setting.partition("=")
            is_far = key.endswith("path") and where == "super/sub"  # as its configuration is
            git("config", key, value.replace("../", "../../../") if is_far else value, where=where)
        put(f"{where}/evil", RUNS)
        put(f"{where}/filters/clean", "#!/bin/sh\ncat\n")
    with opened(GIT, f"{os.getcwd()}/super") as session:
        for where in ("", "sub/", "nested/"):
            for name in (name for names in CONFIGURED.values() for name in names):
                if where == "sub/" and name.endswith(".gitconfig"):
                    continue  # it lies beside
                before = content(f"super/{where}{name}")
                does(session, f"cp {where}evil evil; chmod +x evil; {PLANT.format(path=where + name)}")
                does(session, f"rm -rf {where}{name.partition('/')[0]}; {PLANT.format(path=where + name)}")
                assert content(f"super/{where}{name}") == before, (where, name)
        done = session.run(
            "echo x > src/new.py; echo x >> src/code.py; mkdir -p tools/lib; echo x > tools/lib/a"
        )
        assert done.exit_code == 0 and not done.violations, done
        told = session.run("mkdir .githooks").violations[0]
        assert "core.hookspath" in told.why and "/.git/config" in told.why, told
        assert "core.hookspath" in session.check_path(".githooks/x", write=True).reasons[0].message


def configuration_that_changes_on_the_host_is_seen() -> None:
    repository("one")
    user, here = f"{os.environ['HOME']}/.gitconfig", os.getcwd()
    changes = {
        "own": ("core.hooksPath", "own"),
        "users": ("-f", user, "core.hooksPath", "users"),
        "included": ("-f", user, "include.path", f"{here}/one/included"),
    }
    with opened(GIT, f"{here}/one") as session:
        for name, words in changes.items():
            line = f"mkdir {name} && rmdir {name}"
            assert session.run(line).exit_code == 0
            git("config", *words, where="one")
            wait_until(partial(is_refused, session, line))


def is_refused(session: pinfold.Session, line: str) -> bool:
    return session.run(line).exit_code != 0


def hooks_in_the_project_itself_are_closed_one_by_one() -> None:
    repository("one")
    git("config", "core.hooksPath", ".", where="one")
    with opened(GIT, f"{os.getcwd()}/one") as session:
        assert does(session, "echo fine > new; cat new") == "fine\n"
        assert session.run("echo x > post-checkout").exit_code
        assert session.run("mkdir a && mv a pre-commit").exit_code


def what_the_users_own_configuration_names_is_not_written_in_new_repositories() -> None:
    """In a repository that the same command makes, or clones: no walk has seen it."""
    home, here = os.environ["HOME"], os.getcwd()
    put(f"{home}/.gitconfig", "[core]\nhooksPath = .githooks\n[user]\nname = x\nemail = x@y\n")
    repository("one")
    repository("evil")
    put("evil/.githooks/post-index-change", RUNS)
    os.chmod("evil/.githooks/post-index-change", 0o755)
    git("-c", "core.hooksPath=/dev/null", "add", ".", where="evil")
    git("-c", "core.hooksPath=/dev/null", "commit", "-qm", "hook", where="evil")
    with opened({"filesystem": {"git_writes": True, "read": [f"{here}/evil"]}}, f"{here}/one") as session:
        put("one/evil", RUNS)
        for where in ("new", "a/b"):
            does(session, f"chmod +x evil; git init -q {where}; mkdir {where}/.githooks")
            for name in ("post-index-change", "pre-commit"):
                does(session, PLANT.format(path=f"{where}/.githooks/{name}"))
            does(
                session,
                f"mkdir x; cp evil x/post-index-change; rm -rf {where}/.githooks; mv x {where}/.githooks",
            )
            runs_nothing(f"one/{where}", ("add", "."), ("status",), ("commit", "-mx", "--allow-empty"))
        session.run(f"git clone -q {here}/evil clone")
        if os.path.exists("one/clone"):
            runs_nothing("one/clone", ("status",), ("commit", "-mx", "--allow-empty"))
        assert session.check_path("z/.githooks/pre-commit", write=True).verdict == "ask"
    os.unlink(f"{home}/.gitconfig")


def what_a_link_in_the_home_leads_to_is_not_written() -> None:
    """As a repository of dotfiles has it: none of its names is protected, but those that lead there are."""
    home, here = os.environ["HOME"], os.getcwd()
    repository("dotfiles")
    put("dotfiles/gitconfig", "[user]\nname = x\n")
    put("dotfiles/bashrc", "true\n")
    put("dotfiles/editor/init.lua", "")
    put("dotfiles/units/x.service", "")
    links = {
        ".gitconfig": "gitconfig",
        ".bashrc": "bashrc",
        ".zshrc": "not-yet",
        ".config/nvim": "editor",
        ".config/systemd/user/x.service": "units/x.service",
    }
    for name, target in links.items():
        os.makedirs(os.path.dirname(f"{home}/{name}"), exist_ok=True)
        os.symlink(f"{here}/dotfiles/{target}", f"{home}/{name}")
    before = {name: content(f"dotfiles/{name}") for name in ("gitconfig", "bashrc", "units/x.service")}
    with opened(None, f"{here}/dotfiles") as session:
        for name in (*links.values(), "editor/init.lua", "editor/new"):
            does(session, f"echo evil > evil; {PLANT.format(path=name)}")
            does(session, f"rm -rf {name}")
            assert session.check_path(name, write=True).verdict == "ask", name
        does(session, "mv units x; mv editor x; mkdir -p units editor; echo x > editor/init.lua")
        assert does(session, "echo fine > other; cat other") == "fine\n"
    assert before == {name: content(f"dotfiles/{name}") for name in before}
    assert os.listdir("dotfiles/editor") == ["init.lua"] and not content("dotfiles/editor/init.lua")
    assert not os.path.lexists("dotfiles/not-yet")
    for name in links:
        os.unlink(f"{home}/{name}")


def a_part_of_a_tree_has_the_rules_of_the_whole() -> None:
    """Whoever works below a project, or makes a repository there, may no more than who works in all of it."""
    here = os.getcwd()
    repository("whole")
    put("whole/.pinfoldignore", "part/secret*\n")
    put("whole/part/secret.txt")
    git("config", "core.hooksPath", "part/own", where="whole")
    for line in ("true", "git init -q ."):
        with opened(GIT, f"{here}/whole/part") as session:
            assert session.run("cat secret.txt").exit_code
            assert session.check_path("secret.txt").verdict != "allow"
            assert session.run("mkdir own").exit_code
            does(session, line)
    assert os.path.isdir("whole/part/.git")


def what_variables_of_any_process_name_is_protected() -> None:
    """A service may have other variables than who runs a command in it, and one shell than another."""
    here = os.getcwd()
    named = {"GIT_CONFIG_GLOBAL": f"{here}/mine", "BASH_ENV": f"{here}/start"}
    home = f"{os.environ['HOME']}/.gitconfig"
    os.symlink(f"{here}/usual", home)  # what the variable takes the place of, in other processes not
    assert not named.keys() & os.environ.keys()
    first = {**os.environ}
    for given, adopted in (({**first, **named}, None), (first, {**first, **named}), (first | named, first)):
        with pinfold.Session([here], settings={}, environ=given) as session:
            if adopted is not None:
                session.adopt(adopted)
            for name in ("mine", "start", "usual"):
                assert session.run(f"echo > {name}").exit_code, (name, given is first)
    os.unlink(home)


PROBES = probes_of(globals(), "content", "git", "is_refused", "repository", "runs_nothing")

if __name__ == "__main__":
    run(globals())
