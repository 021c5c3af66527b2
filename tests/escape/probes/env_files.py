"""`.env` files: hidden unless git tracks them or the session made them. Each function runs in a child of the
tests, as root and as an ordinary user, in a workspace of its own. Its name says what must hold."""

import os
import subprocess
import threading
from typing import Any

from tests.escape.probes.sandbox import SECRET, does, opened, put, stays_hidden
from tests.patience import PATIENCE, wait_until
from tests.probe_module import probes_of, run
from tests.session.probes.run import Says

from pinfold.model.permission import Answer

GIT_WRITES: dict[str, Any] = {"filesystem": {"git_writes": True}}
MADE = "cp .env.example .env && cat .env"


def git(*words: str) -> str:
    return subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout.strip()


def untracked_env_files_are_hidden() -> None:
    git("init", "-q")
    names = (".env", ".env.local", "sub/.env-prod", "sub/deep/.env_test", ".env~", ".envrc", ".ENV.old")
    for name in names:
        put(name)
    with opened() as session:
        stays_hidden(
            session, *(f"cat {name}; cp {name} x; mv {name} x; cat x; rm -f {name}" for name in names)
        )
        stays_hidden(session, "ln .env x; cat x", "mv sub else; cat else/.env-prod", "grep -r . .")
    for name in names:
        assert os.path.exists(name), name


def an_env_file_is_hidden_where_a_link_to_packages_leads() -> None:
    """Packages may show theirs. A command makes the link, in the place where the host keeps its own."""
    links = {
        "srv": "node_modules/x",
        "a/deploy": "lib/site-packages/y",
        "b": ".venv/z",
        "c": "node_modules/.bin",
    }
    with opened() as session:
        for link, to in links.items():
            assert not session.run(f"mkdir -p $(dirname {link}) {to}; ln -s $PWD/{to} {link}").stderr
        does(
            session,
            "ln -s ../x node_modules/.bin/further; mkdir -p node_modules/own; ln -s . node_modules/x/again",
        )
        put("node_modules/own/.env", "shown")
        put("srv/node_modules/own/.env", "shown")
        for link in links:
            put(f"{link}/.env")
            put(f"{link}/sub/.env.local")
        wait_for_looks(session, ".env.host")
        for _ in range(2):
            for link, to in links.items():
                names = (f"{place}/{name}" for place in (link, to) for name in (".env", "sub/.env.local"))
                stays_hidden(session, *(f"cat {name}" for name in names))
                stays_hidden(session, f"rm -f {link}; mv {to} moved; cat moved/.env {to}/.env")
            assert does(session, "cat node_modules/own/.env srv/node_modules/own/.env") == "shownshown"
            wait_for_looks(session, ".env.second")


def an_env_file_above_a_project_is_hidden_too() -> None:
    """Whether or not `git init` has made a repository of the part that somebody works in."""
    git("init", "-q")
    put(".env")
    put("part/.env")
    put(".env.tracked", "tracked\n")
    git("add", ".env.tracked")
    put("part/deep/file")
    with opened(None, os.path.abspath("part/deep")) as session:
        stays_hidden(session, "cat ../../.env", "cat ../.env", "cp ../.env x; cat x")
        assert does(session, "cat ../../.env.tracked") == "tracked\n"
    git("init", "-q", "part/deep")
    with opened(None, os.path.abspath("part/deep")) as session:
        stays_hidden(session, "cat ../../.env", "cat ../.env")
        put("part/.env.later")
        wait_until(lambda: SECRET not in does(session, "cat ../.env.later"))


def samples_and_tracked_env_files_are_seen() -> None:
    git("init", "-q")
    for name in (".env.example", ".env.production.sample", ".environment", "node_modules/x/.env"):
        put(name, f"{name}\n")
    for name in (".env", "sub/.env.development"):
        put(name, f"{name}\n")
        git("add", name)
    put("sub/.env.development", "changed\n")
    with opened() as session:
        assert does(session, "cat .env .env.example .env.production.sample .environment").count("\n") == 4
        assert (
            does(session, "cat sub/.env.development node_modules/x/.env") == "changed\nnode_modules/x/.env\n"
        )


def env_files_made_inside_are_seen() -> None:
    put(".env.example", "A=1\n")
    with opened() as session:
        assert does(session, MADE) == "A=1\n"
        wait_for_looks(session, ".env.host")
        assert does(session, "cat .env; mkdir d; cp .env d/.env.local; mv d e; mv .env .env.prod") == "A=1\n"
        wait_for_looks(session, ".env.host2")
        assert does(session, "cat .env.prod e/.env.local; echo B=2 > x; mv x .env") == "A=1\nA=1\n"
        wait_for_looks(session, ".env.host3")
        assert does(session, "cat .env") == "B=2\n"
    with opened() as session:  # the next session did not make it
        assert does(session, "cat .env") == ""


def a_look_does_not_wait_for_a_pen_that_is_built() -> None:
    """Who builds a pen waits for the settings, and a look holds their lock."""
    with opened() as session:
        assert does(session, "echo on") == "on\n"
        look = threading.Thread(target=session.sandboxes.catch_up)
        with session.sandboxes.sandboxed().lock:  # type: ignore[attr-defined]
            look.start()
            look.join(PATIENCE)
            assert not look.is_alive()


def what_the_host_puts_in_the_place_of_an_env_file_is_hidden() -> None:
    put(".env.example", "A=1\n")
    with opened() as session:
        assert does(session, MADE) == "A=1\n"
        put("new")
        os.rename("new", ".env")
        wait_until(lambda: SECRET not in does(session, "cat .env"))
        wait_for_looks(session, ".env.host")
        stays_hidden(session, "cat .env")


def an_env_file_that_comes_while_a_command_runs_is_hidden_in_it() -> None:
    with opened() as session:
        line = (
            "until [ -e sub/.env ]; do sleep 0.1; done; while cat sub/.env; do sleep 0.1; done; echo closed"
        )
        execution = session.start(line)
        put("sub/.env")
        result = execution.wait()
        assert result.stdout.endswith("closed\n"), result


def an_env_file_is_hidden_in_what_runs_while_settings_change() -> None:
    """Though no command begins under the new ones."""
    with opened() as session:
        running = session.start(
            "touch begun; until [ -e .env ] && ! cat .env; do sleep 0.1; done", timeout=60
        )
        wait_until(lambda: os.path.exists("begun"))
        session.change({"network": {"access": "none"}})
        put(".env")
        assert running.wait().exit_code == 0


def no_command_lists_an_env_file_in_the_index() -> None:
    git("init", "-q")
    put(".env")
    put("sample", "A=1\n")
    with opened(GIT_WRITES) as session:
        tell = "git update-index --add --cacheinfo 100644,$(git hash-object -w sample),.env && git ls-files"
        assert ".env" in does(session, tell)
        wait_for_looks(session, ".env.host")
        stays_hidden(session, "cat .env")
    with opened(GIT_WRITES) as session:
        stays_hidden(session, "cat .env")


def an_env_file_that_was_listed_as_its_sample_is_hidden_once_it_is_filled_in() -> None:
    git("init", "-q")
    put("sample", "A=1\n")
    with opened(GIT_WRITES) as session:
        does(session, "git update-index --add --cacheinfo 100644,$(git hash-object -w sample),.env")
        put(".env", "A=1\n")
        wait_for_looks(session, ".env.host")
        with open(".env", "a") as file:
            file.write(SECRET)
        wait_for_looks(session, ".env.later")
        stays_hidden(session, "cat .env")


def links_called_env_hide_what_they_lead_to() -> None:
    put("keys/mine")
    os.symlink("keys/mine", ".env")
    put(".env.example", "A=1\n")
    os.symlink(".env.example", ".env.local")
    with opened() as session:
        stays_hidden(session, "cat .env", "cat keys/mine", "rm -f .env; ln -s x .env; cat keys/mine")
        assert does(session, "cat .env.local .env.example") == "A=1\nA=1\n"


def a_hidden_env_file_is_named_and_read_again_by_a_persons_yes() -> None:
    put(".env")
    with opened() as session:
        result = session.run("cat .env")
        (told,) = result.violations
        assert (told.operation, told.path, told.grantable) == ("read", os.path.realpath(".env"), True)
        assert "filesystem.read" in told.remedy and "filesystem.env_files" in told.remedy
        assert result.needed
        assert session.retry(result.needed).wait().stdout == SECRET
        stays_hidden(session, "cat .env")
    with opened(approvers=[Says(Answer.ONCE)]) as session:
        assert session.run("cat .env").stdout == SECRET


def settings_open_env_files() -> None:
    put(".env")
    put("sub/.env")
    with opened({"filesystem": {"env_files": True}}) as session:
        assert does(session, "cat .env sub/.env") == SECRET * 2
    with opened({"filesystem": {"read": [os.path.realpath(".env")]}}) as session:
        assert does(session, "cat .env sub/.env; echo x >> .env") == SECRET
    with opened({"filesystem": {"hide": [".env"], "read": [os.path.realpath(".env")]}}) as session:
        assert does(session, "cat .env") == "" and not session.run("cat .env").needed


def outside_of_the_fence_and_by_file_tools_env_files_are_asked_about() -> None:
    put(".env")
    with opened({"commands": {"allow": ["cat"]}, "sandbox": {"enabled": False}}) as session:
        for line in ("cat .env", "cat < .env", "cat *.env .en?", "cat ./sub/../.env"):
            assert session.check(line).verdict.value == "ask", line
    with opened() as session:
        for write in (False, True):
            assert session.check_path(".env", write=write).reasons[0].step == "env_file"


def wait_for_looks(session: Any, name: str) -> None:
    """Until another file of the host's has been found and hidden: all others have been looked at by then."""
    put(name)
    wait_until(lambda: SECRET not in does(session, f"cat {name}"))


PROBES = probes_of(globals(), "git", "wait_for_looks")

if __name__ == "__main__":
    run(globals())
