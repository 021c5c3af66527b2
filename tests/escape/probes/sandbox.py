"""Ways out of the fence that were found, and must stay closed: each function runs in a child of the tests, as
root and as an ordinary user, in a workspace of its own. Its name says what must hold."""

import os
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from tests.patience import PATIENCE, wait_until
from tests.probe_module import probes_of, run

import pinfold
from pinfold.kernel import mounts, namespaces
from pinfold.model.errors import ConfinementError
from pinfold.model.events import Exited, Output
from pinfold.model.policy import PolicyType

SECRET = "the-canary"
ENV: dict[str, Any] = {"filesystem": {"hide": [".env"]}}
GIT: dict[str, Any] = {"filesystem": {"git_writes": True}}


def put(path: str, text: str = SECRET) -> str:
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    return path


def read(path: str) -> str:
    with open(path) as file:
        return file.read()


@contextmanager
def opened(settings: Any = None, *roots: str, **given: Any) -> Iterator[pinfold.Session]:
    with pinfold.Session(list(roots) or [os.getcwd()], settings=settings or {}, **given) as session:
        yield session


def python(program: str) -> list[str]:
    return ["/usr/bin/python3", "-I", "-c", program]


def does(session: pinfold.Session, command: str | list[str]) -> str:
    """What it prints. What is not run at all would show nothing."""
    result = session.run(command)
    assert result.ran, result.refusal
    return result.stdout


def stays_hidden(session: pinfold.Session, *lines: str) -> None:
    """Runs the lines in turn; none may tell the secret."""
    for line in lines:
        told = does(session, line)
        assert SECRET not in told, (line, told)


def wait_for_a_walk(session: pinfold.Session, patience: float = PATIENCE) -> None:
    """Until what the host makes now is hidden."""
    put("made-by-the-host/.pinfoldignore", "file\n")
    put("made-by-the-host/file")
    wait_until(lambda: SECRET not in session.run("cat made-by-the-host/file").stdout, patience)


def what_an_ignore_file_hides_by_its_path_is_not_moved_out_of_it() -> None:
    put(".pinfoldignore", "config/secret.json\n")
    put("config/secret.json")
    with opened() as session:
        stays_hidden(session, "cat config/secret.json", "mv config other; ls", "cat */secret.json")


def what_a_nested_ignore_file_hides_is_not_moved_out_of_it() -> None:
    put("sub/.pinfoldignore", "*.key\n")
    put("sub/keys/a.key")
    with opened() as session:
        stays_hidden(session, "cat sub/keys/a.key", "mv sub/keys keys; ls", "cat keys/a.key sub/keys/a.key")


def what_a_pattern_of_a_path_hides_is_not_moved_out_of_it() -> None:
    put("config/a/secret.json")
    with opened({"filesystem": {"hide": ["config/*/secret.json"]}}) as session:
        stays_hidden(session, "cat config/*/secret.json", "mv config other; ls", "cat other/*/secret.json")


DEEPER = """
import os
depth = 40
top = os.getcwd()
os.makedirs('/'.join(['d'] * depth))
os.rename('sub', '/'.join(['d'] * depth) + '/sub')
for level in range(depth, 0, -1):
    os.chdir(top)
    for _ in range(level - 1):
        os.chdir('d')
    os.rename('d', 'd' * 200)
"""
DEEP = """
import os
for _ in range(40):
    os.chdir('d' * 200)
os.chdir('sub')
"""


def what_is_mounted_twice_is_hidden_twice() -> None:
    put(".pinfoldignore", ".env\n")
    put(".env")
    put(f"{os.environ['HOME']}/.ssh/id_rsa")
    uid, gid = os.getuid(), os.getgid()
    namespaces.unshare(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNS)
    namespaces.write_id_maps(uid, gid, inside_uid=uid, inside_gid=gid)
    house = os.path.dirname(os.getcwd())
    for source, where in ((house, "a b"), (os.environ["HOME"], "inner"), (f"{house}/home/.ssh", "keys")):
        os.makedirs(f"{house}/{where}")
        mounts.mount(source, f"{house}/{where}", "", mounts.MS_BIND)
    with opened() as session:
        stays_hidden(session, "cat '../a b/home/.ssh/id_rsa' '../a b/work/.env'")
        stays_hidden(session, "cat ../inner/.ssh/id_rsa", "cat ../keys/id_rsa; ls ..")
        assert "a b" in session.run("ls ..; cat '../a b/work/.pinfoldignore'").stdout


def what_an_overlay_hides_is_hidden_in_its_layers() -> None:
    """Everybody sees in the list of mounts where they are."""
    uid, gid = os.getuid(), os.getgid()
    namespaces.unshare(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNS)
    namespaces.write_id_maps(uid, gid, inside_uid=uid, inside_gid=gid)
    house = os.path.dirname(os.getcwd())
    put(f"{house}/low:er/.env")
    put(f"{house}/low:er/keys/key")
    for name in ("low", "up", "spare"):
        os.mkdir(f"{house}/{name}")
    lower = f"{house}/low\\:er:{house}/low"
    options = f"lowerdir={lower},upperdir={house}/up,workdir={house}/spare"
    mounts.mount("overlay", os.getcwd(), "overlay", 0, options)
    os.chdir(os.getcwd())
    put("above/.env.local")
    put(".pinfoldignore", "keys/\n")
    with opened() as session:
        stays_hidden(session, "cat .env above/.env.local keys/key")
        stays_hidden(session, "cat ../low:er/.env ../up/above/.env.local ../low:er/keys/key")
        assert does(session, "cat ../up/.pinfoldignore") == "keys/\n"


def what_the_machine_unmounts_is_out_of_sight() -> None:
    uid, gid = os.getuid(), os.getgid()
    namespaces.unshare(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNS)
    namespaces.write_id_maps(uid, gid, inside_uid=uid, inside_gid=gid)
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as write,
        tempfile.TemporaryDirectory(dir="/tmp") as read,
    ):
        granted = {"write": [write], "read": [read]}
        vaults = tuple(f"{place}/vault" for place in (os.environ["HOME"], os.getcwd(), write, read))
        for vault in vaults:
            os.mkdir(vault)
            mounts.mount("vault", vault, "tmpfs", 0)
            put(f"{vault}/key")
        tell = f"cat {' '.join(f'{vault}/key' for vault in vaults)}; echo evil > vault/new; true"
        with opened({"filesystem": granted}) as session:
            assert does(session, tell) == SECRET * len(vaults)
            running = session.start(f"until [ -e unmounted ]; do sleep 0.1; done; {tell}", timeout=60)
            for vault in vaults:
                mounts.umount(vault)
            wait_until(lambda: not session.run(tell).stdout)
            session.change({"filesystem": {**granted, "hide": ["other"]}})
            assert does(session, tell) == ""
            put("unmounted")
            assert running.wait().stdout == ""


def what_is_unmounted_before_the_first_command_is_out_of_sight_too() -> None:
    """A session has its mounts from its beginning on, and a person may be asked about its first command."""
    uid, gid = os.getuid(), os.getgid()
    namespaces.unshare(namespaces.CLONE_NEWUSER | namespaces.CLONE_NEWNS)
    namespaces.write_id_maps(uid, gid, inside_uid=uid, inside_gid=gid)
    vault = f"{os.environ['HOME']}/vault"
    os.mkdir(vault)
    mounts.mount("vault", vault, "tmpfs", 0)
    put(f"{vault}/key")

    def unmounts(_question: pinfold.PermissionNeeded) -> pinfold.Answer:
        mounts.umount(vault)
        return pinfold.Answer.ONCE

    settings = {"mode": "ask_every_time"}
    with pinfold.Session([os.getcwd()], settings=settings, approvers=[unmounts]) as session:
        result = session.run(f"cat {vault}/key")
        assert result.settlement and SECRET not in result.stdout, result


def what_lies_deeper_than_any_path_stays_hidden() -> None:
    put("sub/.env")
    with opened(ENV) as session:
        stays_hidden(session, "cat sub/.env")
        does(session, python(DEEPER))
        result = session.run(python(DEEP + "print(open('.env').read())"))
        assert SECRET not in result.stdout, result


def what_lies_deeper_than_any_path_stays_protected() -> None:
    os.mkdir("sub")
    subprocess.run(["git", "init", "-q", "sub"], check=True)
    before = read("sub/.git/config")
    with opened(GIT) as session:
        does(session, python(DEEPER))
        does(session, python(DEEP + "file = os.open('.git/config', os.O_WRONLY)\nos.write(file, b'evil')"))
    os.chdir("d" * 200) if os.path.isdir("d" * 200) else None
    while os.path.isdir("d" * 200):
        os.chdir("d" * 200)
    assert read("sub/.git/config") == before


def a_closed_directory_is_not_taken_for_another() -> None:
    put("secret/.env")
    os.mkdir("plain")
    with opened(ENV) as session:
        stays_hidden(
            session,
            "cat secret/.env",
            "mv plain aside; mv secret plain; chmod 000 plain",
            "chmod 755 plain; cat plain/.env",
        )


def a_directory_in_a_closed_one_is_not_taken_for_another() -> None:
    put("secret/.env")
    os.makedirs("above/plain")
    with opened(ENV) as session:
        stays_hidden(
            session,
            "cat secret/.env",
            "mv above/plain aside; mv secret above/plain; chmod 000 above",
            "chmod 755 above; cat above/plain/.env",
        )


def many_directories_do_not_hide_an_ignore_file() -> None:
    put("a/b/.pinfoldignore", "secret.txt\n")
    put("a/b/secret.txt")
    make = "import os\nfor i in range(20050):\n    os.mkdir('z%d' % i)"
    with opened() as session:
        stays_hidden(session, "cat a/b/secret.txt")
        does(session, python(make))
        wait_for_a_walk(session, 75)  # fifty times as long as the last one took
        stays_hidden(session, "cat a/b/secret.txt")
    with opened() as session:
        stays_hidden(session, "cat a/b/secret.txt")


def an_ignore_file_is_not_moved_to_where_nobody_looks() -> None:
    put("x/.hid/sub/.pinfoldignore", "secret.txt\n")
    put("x/.hid/sub/secret.txt")
    with opened() as session:
        stays_hidden(session, "cat x/.hid/sub/secret.txt", "mv x node_modules; ls")
        wait_for_a_walk(session)
        stays_hidden(session, "cat node_modules/.hid/sub/secret.txt")


def an_ignore_file_of_another_name_is_not_the_agents_to_write() -> None:
    put("sub/.hides", "secret.txt\n")
    put("sub/secret.txt")
    with opened({"filesystem": {"ignore_files": [".hides"]}}) as session:
        stays_hidden(
            session,
            "rm -f sub/.hides; mv sub/.hides sub/else; echo '!secret.txt' >> sub/.hides; mkdir new",
            "cat sub/secret.txt; echo '!secret.txt' > .hides; echo '*' > new/.HIDES",
            "cat sub/secret.txt",
        )
    assert read("sub/.hides") == "secret.txt\n" and os.listdir("new") == []


def long_paths_do_not_take_the_hosts_memory() -> None:
    """One character of four bytes makes Python keep all of a path's so."""
    make = (
        "import os\nfor name in ('\U0001f600', *['d' * 200] * 17):\n    os.mkdir(name)\n    os.chdir(name)\n"
        "for number in range(10000):\n    os.close(os.open(f'{number}', os.O_CREAT | os.O_WRONLY))\n"
    )
    with opened() as session:
        wait_for_a_walk(session)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        session.run(python(make)).check()
        put("another/.pinfoldignore", "file\n")
        put("another/file")
        wait_until(lambda: SECRET not in session.run("cat another/file").stdout)
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert taken < 50_000, f"{taken} kB"


def what_an_ignore_file_hides_in_a_directory_that_is_closed_and_opened_stays_hidden() -> None:
    """It may be closed when its ignore files are looked for, and open when the pen is planned."""
    put("a/sub/.pinfoldignore", "secret.txt\n")
    put("a/sub/secret.txt")
    flap = (
        "import os, time\nend = time.monotonic() + 8\n"
        "while time.monotonic() < end:\n"
        "    os.chmod('a', 0)\n    time.sleep(0.002)\n    os.chmod('a', 0o755)\n    time.sleep(0.002)\n"
    )
    with opened() as session:
        stays_hidden(session, "cat a/sub/secret.txt")
        flapping = session.start(python(flap))
        end = time.monotonic() + 4
        while time.monotonic() < end:
            stays_hidden(session, "for i in 1 2 3 4 5 6 7 8; do cat a/sub/secret.txt; sleep 0.001; done")
        flapping.cancel()


def what_is_moved_about_during_a_survey_stays_hidden() -> None:
    put("p/s/.env")
    os.mkdir("q")
    for number in range(300):
        os.makedirs(f"p/x{number}")
        os.makedirs(f"q/x{number}")
    flip = (
        "import os, time\nend = time.monotonic() + 8\n"
        "while time.monotonic() < end:\n"
        "    os.rename('p/s', 'q/s')\n    os.rename('q/s', 'p/s')\n"
    )
    with opened(ENV) as session:
        mover = session.start(python(flip))
        end = time.monotonic() + 6
        while time.monotonic() < end:
            line = "for i in 1 2 3 4 5 6 7 8; do cat p/s/.env q/s/.env 2>/dev/null; done"
            stays_hidden(session, line)
        mover.cancel()


def a_long_chain_of_links_does_not_end_the_lookout() -> None:
    chain = (
        "import os\nfor i in range(1500):\n    os.symlink('l%d' % (i + 1), 'l%d' % i)\n"
        "os.symlink('l0', '.env')"
    )
    with opened(ENV) as session:
        session.run("true")
        does(session, python(chain))
        wait_for_a_walk(session)
        put("sub/.env")
        wait_until(lambda: not session.run("cat sub/.env").stdout)


def what_an_ignore_file_hides_is_hidden_where_a_link_on_its_way_leads() -> None:
    """A command makes the links before there is anything to hide; some lead on to further ones."""
    put(
        ".pinfoldignore",
        "config/secret.json\nshut/\n/deep/*/*.pem\n*.key\n!open/*.key\n**/store/pass\na/b/c\n",
    )
    put("part/.pinfoldignore", "*.token\n")
    ways = {
        "config": ("other", "secret.json"),
        "shut": ("q", "file"),
        "deep/x": ("zz", "k.pem"),
        "keys": ("open", "k.key"),
        "sub/store": ("st", "pass"),
        "part/own": ("free", "further/x.token"),
    }
    made = [f"mkdir -p $(dirname {link}) {to}; ln -s $PWD/{to} {link}" for link, (to, _) in ways.items()]
    made += ["mkdir a1 b1; ln -s a1 a; ln -s ../b1 a/b; ln -s . a1/again; ln -s . again"]
    seen = [path for link, (to, name) in ways.items() for path in (f"{link}/{name}", f"{to}/{name}")]
    seen += ["a/b/c", "a1/b/c", "b1/c"]
    with opened() as session:
        assert not session.run("; ".join(made)).stderr
        for link, (_, name) in ways.items():
            put(f"{link}/{name}")
        put("a/b/c")
        put("part/own/seen")
        put("a/seen")
        wait_for_a_walk(session)
        stays_hidden(session, *(f"cat {path}" for path in seen))
    with opened() as session:
        assert does(session, "cat free/seen a1/seen") == 2 * SECRET
        taken = " ".join((*ways, "a", "a1/b"))
        stays_hidden(
            session, *(f"cat {path}" for path in seen), f"rm -f {taken}; mv other o; mv st s; mv b1 b"
        )
        wait_for_a_walk(session)
        stays_hidden(session, *(f"cat {path}" for path in seen), "cat o/* s/* b/*")


def a_protected_link_that_leads_nowhere_yet_protects_where_it_leads() -> None:
    os.symlink("tools/vscode", ".vscode")
    with opened() as session:
        does(session, "mkdir -p tools/vscode; echo evil > tools/vscode/tasks.json")
    assert not os.path.exists(".vscode/tasks.json")


def a_workspace_file_of_an_editor_is_not_the_agents_to_write() -> None:
    """By whatever name before its ending, in the root and below it, made or already there."""
    there = [put("own.code-workspace"), put("sub/own.Code-Workspace")]
    os.makedirs("tree/inner")
    tries = """
import os
from contextlib import suppress
def wanted(act, *given):
    with suppress(OSError): print("DONE", act(*given))
def written(path):
    with open(path, "w") as file: file.write("evil")
    return path
def exchanged(path):
    os.rename(path, path + ".old")
    return path
for above in ("", "sub/", "tree/inner/", os.getcwd() + "/tree/"):
    for name in ("new.code-workspace", ".code-workspace", "a.b.CODE-WORKSPACE", "new.code-workspace. "):
        written("plain")
        os.makedirs("husk/x", exist_ok=True)
        for act, *given in ((written,), (os.mkdir,), (os.mknod,)):
            wanted(act, above + name, *given)
        for act in (os.rename, os.link, os.symlink): wanted(act, "plain", above + name)
        wanted(os.rename, "husk", above + name)
for path in ("own.code-workspace", "sub/own.Code-Workspace"):
    for act in (written, os.unlink, exchanged): wanted(act, path)
    wanted(os.rename, "plain", path)
    wanted(os.link, path, "other"); wanted(written, "other")
    if os.path.exists("other"): os.unlink("other")
wanted(os.rename, "sub", "moved")
written("new.code-workspace.md"), written("code-workspace")
print("end")
"""
    with opened() as session:
        told = does(session, python(tries))
        result = session.run("touch tree/x.code-workspace")
    made = [name for _, directories, names in os.walk(".") for name in (*directories, *names)]
    ends = sorted(name for name in made if name.rstrip(". ").lower().endswith(".code-workspace"))
    assert told.endswith("end\n") and ends == ["own.Code-Workspace", "own.code-workspace"], (told, ends)
    assert [read(path) for path in there] == [SECRET, SECRET] and "new.code-workspace.md" in made
    assert [each.rule for each in result.violations] == ["*.code-workspace"], result


def a_link_on_the_way_to_a_protected_name_protects_where_it_leads() -> None:
    os.makedirs("tools/cargo")
    os.symlink("tools/cargo", ".cargo")
    with opened() as session:
        does(session, "echo evil > tools/cargo/config.toml")
    assert not os.path.exists(".cargo/config.toml")


def what_is_hidden_by_a_link_stays_hidden_without_it() -> None:
    """The link has the hidden name, or the ignore file is one, or lies behind one."""
    put("store/env")
    os.symlink("store/env", ".env")
    for name in ("a", "b"):
        put(f"{name}/real/ignore", "secret.txt\n")
        put(f"{name}/secret.txt")
    os.symlink("real/ignore", "a/.pinfoldignore")
    os.symlink("real", "b/linked")
    os.symlink("linked/ignore", "b/.pinfoldignore")
    for _ in range(2):
        with opened(ENV) as session:
            stays_hidden(
                session,
                "rm .env; mv .env x; rm a/.pinfoldignore",
                "rm b/linked; mkdir b/linked && touch b/linked/ignore",
                "ln -sfn . b/linked; mv b c; mv a d; cat store/env */secret.txt",
            )
            wait_for_a_walk(session)
            stays_hidden(session, "cat store/env */secret.txt")


def where_a_protected_link_leads_is_not_led_elsewhere() -> None:
    """By a link behind it, a directory that it leaves again, or where it lies itself."""
    for name in ("a/real/vs", "b/real/vs", "b/left", "c/lies", "c/real/vs"):
        os.makedirs(name)
    os.symlink("real", "a/linked")
    os.symlink("linked/vs", "a/.vscode")
    os.symlink("left/../real/vs", "b/.vscode")
    os.symlink("../real/vs", "c/lies/.vscode")
    line = (
        "for each in a/linked/vs b/evil/real/vs c/deep/real/vs; do\n"
        "    mkdir -p $each; echo > $each/tasks.json\ndone\n"
        "rm a/linked; mkdir -p a/linked/vs; echo > a/linked/vs/tasks.json; "
        "mkdir b/evil/x; rmdir b/left; mv b/left b/gone; ln -s evil/x b/left; mv c/lies c/deep/lies; "
        "rm */.vscode"
    )
    for _ in range(2):
        with opened() as session:
            does(session, line)
    links = [f"{top}/{name}" for top, names, _ in os.walk(".") for name in names if name == ".vscode"]
    assert len(links) == 3 and not [link for link in links if os.listdir(link)], links


def where_a_link_leads_out_of_its_root_to_what_is_granted_counts_too() -> None:
    """Commands write there as in a root."""
    work, beside = os.path.abspath("work"), os.path.abspath("beside")
    put(f"{beside}/vs/tasks.json")
    put(f"{beside}/env")
    os.mkdir(work)
    os.symlink(f"{beside}/vs", f"{work}/.vscode")
    os.symlink(f"{beside}/env", f"{work}/.env")
    write = "import os; os.write(os.open('.vscode/tasks.json', os.O_WRONLY), b'changed')"
    with opened({"filesystem": {"hide": [".env"], "write": [beside]}}, work) as session:
        stays_hidden(session, f"cat .env {beside}/env; ln -s {beside} x; mkdir y; ln -s {beside} y/.env")
        assert session.run(python(write)).exit_code
        session.change({"network": {"access": "none"}})
        does(session, f"touch {beside}/made")  # which a link of a command's own does not hide as a whole
    assert read(f"{beside}/vs/tasks.json") == SECRET and os.path.exists(f"{beside}/made")


def chains_of_links_where_a_setting_names_something_do_not_end_the_session() -> None:
    here = os.getcwd()
    files = {"hide": ["secrets/key"], "read": ["looked/at"], "write": ["written/to"]}
    settings = {"filesystem": {key: [f"{here}/{path}" for path in paths] for key, paths in files.items()}}
    chain = (
        "import os\nfor name in ('secrets', 'looked', 'written'):\n    for i in range(1500):\n"
        "        os.symlink(f'{name}{i + 1}', f'{name}{i}' if i else name)"
    )
    with opened(settings) as session:
        session.run(python(chain)).check()
        session.change({"network": {"access": "none"}})
        assert does(session, "echo goes on") == "goes on\n"
        wait_for_a_walk(session)
    with opened(settings) as session:
        assert does(session, "echo goes on") == "goes on\n"


def where_a_link_in_something_protected_leads_is_protected() -> None:
    for name in ("conf/tasks.json", "scripts/check", ".vscode/settings.json"):
        put(name)
    subprocess.run(["git", "init", "--quiet", "."], check=True)
    os.symlink("../conf/tasks.json", ".vscode/tasks.json")
    os.symlink("../conf/launch.json", ".vscode/launch.json")
    os.symlink("../../scripts/check", ".git/hooks/pre-commit")
    names = ".vscode/tasks.json conf/tasks.json .git/hooks/pre-commit scripts/check conf/launch.json"
    for settings in ({}, GIT):
        with opened(settings) as session:
            does(
                session, f"for each in {names}; do echo changed > $each; done; mv conf x; mv scripts y; true"
            )
    assert read(".vscode/tasks.json") == read(".git/hooks/pre-commit") == SECRET
    assert not os.path.exists(".vscode/launch.json")


def a_name_that_begins_above_a_granted_directory_is_protected_in_it() -> None:
    home = f"{os.getcwd()}/home"
    for name in (".m2", ".config/nvim", ".cargo"):
        os.makedirs(f"{home}/{name}")
    put(f"{home}/.cargo/config.toml", "")
    os.mkdir("work")
    write = [f"{home}/{name}" for name in (".m2", ".config", ".cargo")]
    with opened({"filesystem": {"write": write}}, "work") as session:
        does(session, f"echo evil > {home}/.m2/settings.xml; echo evil > {home}/.cargo/config.toml")
        does(session, f"cd {home}/.config && echo evil > nvim/init.lua; echo evil > new; mv new autostart")
        assert session.run(f"echo fine > {home}/.m2/fine && cat {home}/.m2/fine").stdout == "fine\n"
    assert os.listdir(f"{home}/.m2") == ["fine"] and not read(f"{home}/.cargo/config.toml")
    assert sorted(os.listdir(f"{home}/.config")) == ["new", "nvim"] and not os.listdir(f"{home}/.config/nvim")


def a_settings_file_in_the_workspace_is_not_the_agents_to_write() -> None:
    put("mine.toml", 'mode = "use_allowlist"\n')
    with opened(os.path.abspath("mine.toml")) as session:
        does(session, "echo '[sandbox]' > mine.toml; echo 'enabled = false' >> mine.toml")
        does(session, "mv mine.toml away; printf '[sandbox]\\nenabled = false\\n' > mine.toml")
        assert session.settings.sandbox.enabled
    assert "enabled" not in read("mine.toml")


def the_users_configuration_in_the_workspace_is_not_the_agents_to_write() -> None:
    environ = {**os.environ, "XDG_CONFIG_HOME": f"{os.getcwd()}/conf"}
    with pinfold.Session([os.getcwd()], environ=environ) as session:
        line = (
            "mkdir -p conf/pinfold && cd conf/pinfold && printf '[sandbox]\\nenabled = false' > settings.toml"
        )
        does(session, line)
        assert session.settings.sandbox.enabled
    assert not os.path.exists("conf/pinfold/settings.toml")


def a_hook_in_the_workspace_is_not_the_agents_to_write() -> None:
    put("hook.sh", "#!/bin/sh\necho '{}'\n")
    os.chmod("hook.sh", 0o755)
    with opened({"hooks": {"before_command": [os.path.abspath("hook.sh")]}}) as session:
        does(session, "echo evil >> hook.sh")
    assert "evil" not in read("hook.sh")


def the_code_that_holds_the_fence_is_not_the_agents_to_write() -> None:
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(os.path.dirname(pinfold.__file__), "lib/pinfold", ignore=leave)
    before = read("lib/pinfold/__init__.py")
    program = (
        "import sys; sys.path.insert(0, 'lib')\nimport pinfold\n"
        "with pinfold.Session(['.'], settings={}) as session:\n"
        "    assert session.run('echo evil >> lib/pinfold/__init__.py').ran\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert read("lib/pinfold/__init__.py") == before


def what_starts_pinfold_from_a_checkout_is_not_the_agents_to_write() -> None:
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(os.path.dirname(pinfold.__file__), "checkout/src/pinfold", ignore=leave)
    put("checkout/pinfold", "#!/bin/sh\n")
    put("checkout/pyproject.toml", "[project]\n")
    program = (
        "import sys; sys.path.insert(0, 'checkout/src')\nimport pinfold\n"
        "with pinfold.Session(['.'], settings={}) as session:\n"
        "    for line in ('echo evil >> pinfold; ln -s x .venv.log', 'echo evil >> pyproject.toml',\n"
        "        'mv pinfold away; echo evil > pinfold; echo fine > notes',\n"
        "        'echo evil > src/sitecustomize.py; mkdir src/msgspec; mv src/pinfold src/p; mv src s',\n"
        "        'mkdir .venv; ln -s /tmp .venv; echo evil > .venv'):\n"
        "        assert session.run(f'cd checkout; {line}').ran\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert read("checkout/pinfold") == "#!/bin/sh\n" and read("checkout/pyproject.toml") == "[project]\n"
    assert sorted(os.listdir("checkout")) == ["notes", "pinfold", "pyproject.toml", "src"]
    assert os.listdir("checkout/src") == ["pinfold"]


EVIL = "[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = touch {};\n"
BARE = "mkdir -p {0}/objects {0}/refs; echo ref: refs/heads/x > {0}/HEAD; cp evil {0}/config; "


def runs_nothing(*lines: str) -> None:
    """Runs the lines in a workspace where git may write; then git looks into every directory of it."""
    pwned = f"{os.getcwd()}/pwned"
    put("evil", EVIL.format(pwned))
    with opened(GIT) as session:
        for line in lines:
            does(session, line)
    for directory, _, _ in os.walk("."):
        subprocess.run(["git", "status"], cwd=directory, capture_output=True, check=False)
        assert not os.path.exists(pwned), directory


def no_repository_is_made_inside_a_git_directory() -> None:
    runs_nothing("mkdir -p n/.git/x; " + BARE.format("n/.git/x/k"))
    runs_nothing("mkdir -p n/GIT~1/x; " + BARE.format("n/GIT~1/x/k"))


def no_repository_is_moved_out_of_a_git_directory() -> None:
    runs_nothing("mkdir -p n; " + BARE.format("n/.git/x/k") + "mv n/.git/x/k k")
    runs_nothing("mkdir -p m; " + BARE.format("m/.git") + "mv m/.git l; cp evil l/config")
    runs_nothing("mkdir -p o; " + BARE.format("o/.git/modules/a") + "mv o/.git/modules q; cp evil q/a/config")
    runs_nothing("mkdir -p p; " + BARE.format("p/.GIT") + "mv p/.GIT p/r; cp evil p/r/config")


def no_socket_makes_a_directory_a_repository() -> None:
    for made, last in (("objects", "refs"), ("refs", "objects")):
        bind = f"import socket; socket.socket(socket.AF_UNIX).bind('{made}/{last}')"
        parts = f"mkdir -p {made}/{made}; echo ref: refs/heads/x > {made}/HEAD; cp evil {made}/config; "
        runs_nothing(f'{parts} python3 -c "{bind}"')


def a_repository_without_configuration_does_not_get_one_elsewhere() -> None:
    subprocess.run(["git", "init", "-q", "--bare", "x/.c/r.git"], check=True)
    subprocess.run("cd x/.c/r.git; rm -rf config hooks info branches description", shell=True, check=True)
    runs_nothing("cp evil x/.c/r.git/config; mv x y; cp evil y/.c/r.git/config; mv y x")


def what_a_repository_shares_gets_no_configuration() -> None:
    os.makedirs("r")
    put("r/HEAD", "ref: refs/heads/x\n")
    put("r/commondir", "../d/y \n")
    put("evil", EVIL.format("pwned"))
    make = "mkdir -p 'd/y /objects' 'd/y /refs'"
    with opened(GIT) as session:
        for line in (
            f"{make}; cp evil 'd/y /config'",
            f"{make}; mv 'd/y ' q; cp evil q/config; mv -T q 'd/y '; ln -s ../q 'd/y '",
            f"{make}; mv d e; cp evil 'e/y /config'; mv e d; ln -s e d",
            "mkdir -p z/objects z/refs; cp evil z/config; echo ../z > r/commondir; mv r s; cp -r r t",
        ):
            does(session, f"rm -rf d e q z t; {line}")
            for name in {*os.listdir(), "r"} - {"evil"}:
                said = subprocess.run(["git", "config", "core.fsmonitor"], cwd=name, capture_output=True)
                assert said.stdout == b"", (line, name)


def a_repository_that_loses_its_head_stays_closed() -> None:
    subprocess.run(["git", "init", "-q", "--bare", "b"], check=True)
    with open("b/config") as config:
        before = config.read()
    changes = (
        "echo x >> b/config; mv b/config c; cp evil b/config; mkdir -p b/hooks; cp evil b/hooks/pre-commit"
    )
    put("evil", EVIL.format("pwned"))
    for loses in ("rm b/HEAD", "rm -rf b/refs"):
        with opened(GIT) as session:
            does(session, f"{loses}; {changes}")
            pens: Any = session.sandboxes.sandboxed()
            pens.close_idle(1e-9)
            does(session, changes)
        with open("b/config") as config:
            assert config.read() == before and not os.path.exists("b/hooks/pre-commit"), loses


CHANGE_OF_GIT = """
import os, sys
done = []
def tried(name, act):
    try: act()
    except OSError: return
    done.append(name)
def opened(path): os.close(os.open(path, os.O_CREAT | os.O_WRONLY))
for directory in sys.argv[1:]:
    os.chdir(directory)
    for name in ("HEAD", "index", "packed-refs", "objects/new", "refs/heads/new", "FETCH_HEAD", "info/new"):
        tried(f"{directory}: open {name}", lambda: opened(name))
    for name in ("logs", "objects/aa", "rebase-merge", "worktrees/new"):
        tried(f"{directory}: mkdir {name}", lambda: os.mkdir(name))
    for name in ("HEAD", "objects", "refs"):
        tried(f"{directory}: rename {name}", lambda: os.rename(name, "away"))
        tried(f"{directory}: chmod {name}", lambda: os.chmod(name, 0o700))
        tried(f"{directory}: utime {name}", lambda: os.utime(name))
    tried(f"{directory}: unlink HEAD", lambda: os.unlink("HEAD"))
    tried(f"{directory}: rmdir refs/tags", lambda: os.rmdir("refs/tags"))
print(done)
"""


def no_repository_is_written_while_git_may_not_write() -> None:
    """Whatever it is called: as a `.git`, a submodule's, a linked worktree's, a bare one, one apart."""
    here = os.getcwd()
    identity = ("-c", "user.name=x", "-c", "user.email=x@y", "-c", "protocol.file.allow=always")

    def git(*words: str, where: str = ".") -> str:
        done = subprocess.run(
            ["git", *identity, *words], cwd=where, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q", "plain")
    git("commit", "-q", "--allow-empty", "-m", "x", where="plain")
    git("worktree", "add", "-q", "../linked", where="plain")
    git("clone", "-q", "--bare", "plain", "bare.git")
    git("clone", "-q", "--bare", "plain", "holder")
    git("worktree", "add", "-q", "trees/main", where="holder")
    git("clone", "-q", f"--separate-git-dir={here}/apart", "plain", "tree")
    git("init", "-q", "super")
    git("submodule", "add", "-q", f"{here}/plain", "sub", where="super")
    trees = ("plain", "linked", "bare.git", "holder", "holder/trees/main", "tree", "super", "super/sub")
    directories = [git("rev-parse", "--absolute-git-dir", where=tree) for tree in trees]
    with opened() as session:
        assert does(session, [*python(CHANGE_OF_GIT), *directories]) == "[]\n"
        told = session.run("git -C tree -c user.name=x -c user.email=x@y commit --allow-empty -m x")
        assert told.exit_code and told.violations[0].remedy == "set `filesystem.git_writes = true`", told
        # What lies in a repository and is none of git's is written as ever.
        assert does(session, "cd holder/trees/main; echo fine > new; mkdir -p a/b; git status -s; ls ..") == (
            "?? new\nmain\n"
        )
        assert does(session, "mkdir -p a/objects a/refs; echo fine > a/config; cat a/config") == "fine\n"
    with opened({}, f"{here}/bare.git") as session:
        assert does(session, [*python(CHANGE_OF_GIT), f"{here}/bare.git"]) == "[]\n"
    with opened(GIT) as session:
        line = "git -C tree -c user.name=x -c user.email=x@y commit -q --allow-empty -m fine"
        assert session.run(line).exit_code == 0


def two_pens_do_not_make_a_repository_together() -> None:
    program = (
        "import os, sys, time\nend = time.monotonic() + 4\nwhile time.monotonic() < end:\n"
        "    for number in range(50):\n"
        "        try:\n            {make}\n        except OSError:\n            pass\n"
        "        if {both}:\n            print('MADE'); sys.exit()\n"
        "        try:\n            {undo}\n        except OSError:\n            pass\n"
    )
    both = "os.path.exists('r/HEAD') and os.path.exists('r/refs')"
    os.makedirs("r/objects")
    one = program.format(make="os.close(os.open('r/HEAD', 65, 0o644))", both=both, undo="os.unlink('r/HEAD')")
    two = program.format(make="os.mkdir('r/refs')", both=both, undo="os.rmdir('r/refs')")
    with pinfold.Session([f"{os.getcwd()}/r"], settings=GIT) as session:
        os.chdir("r")
        first = session.start(python(one.replace("r/", "")))
        assert not first.refusal, first.refusal
        session.change({"environment.drop": ["OTHER"]})  # another policy, another pen
        second = does(session, python(two.replace("r/", "")))
        assert "MADE" not in second + first.wait().stdout


def two_sessions_do_not_make_a_protected_name_together() -> None:
    program = (
        "import os, sys, time\nend = time.monotonic() + 4\nwhile time.monotonic() < end:\n"
        "    for act in ({acts}):\n"
        "        try:\n            act()\n        except OSError:\n            pass\n"
        "    if os.path.exists('.cargo/config.toml'):\n        print('MADE'); sys.exit()\n"
    )
    file = "lambda: os.close(os.open('x/config.toml', 65)), lambda: os.unlink('x/config.toml')"
    move = "lambda: os.mkdir('x'), lambda: os.rename('x', '.cargo'), lambda: os.rmdir('.cargo')"
    with opened() as one, opened() as two:
        first = one.start(python(program.format(acts=file)))
        assert not first.refusal, first.refusal
        second = does(two, python(program.format(acts=move)))
        assert "MADE" not in second + first.wait().stdout


def a_root_that_another_session_moves_gets_no_protected_name() -> None:
    """In a private /tmp it keeps its path in the pen."""
    with tempfile.TemporaryDirectory(dir="/tmp") as place:
        os.mkdir(f"{place}/x")
        with opened(None, f"{place}/x", cwd=f"{place}/x") as one, opened(None, place, cwd=place) as two:
            does(one, "mkdir refs && echo > config && rm -r refs config")
            line = "touch begun; until test -e moved; do sleep 0.01; done; echo > config.toml; echo > other"
            first = one.start(line)
            wait_until(lambda: os.path.exists(f"{place}/x/begun"))
            does(two, "mv x .cargo && touch .cargo/moved")
            assert "busy" in first.wait().stderr
            assert sorted(os.listdir(f"{place}/.cargo")) == ["begun", "moved", "other"]
            for path in ("config.toml", "hooks/x"):
                try:
                    one.files.write(path, "")
                except pinfold.FileRefused:
                    continue
                raise AssertionError(path)
            assert sorted(os.listdir(f"{place}/.cargo")) == ["begun", "moved", "other"]


def no_directory_above_a_root_is_renamed_to_open_it() -> None:
    """In a private /tmp they are the session's own: the root had a path that no rule was about."""
    moves = python("import os, sys; os.rename(*sys.argv[1:])")
    readers = pinfold.SandboxPolicy(type=PolicyType.WORKSPACE_READONLY)
    makes = "mkdir .idea; echo > .envrc; git init -q late; cd .. && cd work && mkdir .vscode; touch other"
    for place in ("/var/tmp", "/dev/shm"):
        with tempfile.TemporaryDirectory(dir=place) as above:
            work = f"{above}/a/work"
            os.makedirs(work)
            with opened(GIT, work, cwd=work) as session:
                for each in (above, f"{above}/a"):
                    assert "busy" in session.run([*moves, each, f"{each}-moved"]).stderr
                # Commands that may write nothing else move names in a private /tmp by themselves.
                line = f"touch begun; until test -e {place}/moved; do sleep 0.01; done; {makes}"
                first = session.start(line)
                wait_until(partial(os.path.exists, f"{work}/begun"))
                moved = f"import os; os.rename('{above}', '{above}-moved'); open('{place}/moved', 'w')"
                result = session.run(pinfold.RunCommand(shlex.join(python(moved)), policy=readers))
                assert result.exit_code == 0, result
                assert first.wait().ran
            assert not {".vscode", ".idea", ".envrc", "late"} & set(os.listdir(work)), os.listdir(work)


TAKES_DESCRIPTORS = """
import os, resource, socket, threading, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
full = socket.socket(socket.AF_UNIX)
full.bind("/tmp/full")
full.listen(0)
kept = []
failed = 0
while failed < 8:
    kept.append(socket.socket(socket.AF_UNIX))
    try: kept[-1].bind(f"/tmp/{len(kept)}")
    except OSError: failed += 1
def connect():
    kept.append(socket.socket(socket.AF_UNIX))
    try: kept[-1].connect("/tmp/full")
    except OSError: pass
for _ in range(12): threading.Thread(target=connect, daemon=True).start()
for each in range(8):
    try: socket.socket(socket.AF_UNIX).bind(f"/tmp/again{each}")
    except OSError: pass
print("taken", flush=True)
while not os.path.exists("replaced"): time.sleep(0.01)
until = time.monotonic() + 10
said = "open"
while said == "open" and time.monotonic() < until:
    try: open("secret").read()
    except PermissionError: said = "hidden"
    time.sleep(0.01)
print(said, flush=True)
os._exit(0)
"""


def what_the_host_replaces_is_hidden_though_a_command_takes_all_descriptors() -> None:
    put("secret")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 1024), min(hard, 4096)))  # fewer, to be quick
    with opened({"filesystem": {"hide": ["secret"]}}) as session:
        taker = session.start(python(TAKES_DESCRIPTORS), timeout=80)
        events = taker.events()
        assert any(isinstance(event, Output) and b"taken" in event.data for event in events)
        put("secret.new", "another")
        os.rename("secret.new", "secret")
        put("replaced")
        told = b"".join(event.data for event in events if isinstance(event, Output))
        assert told == b"hidden\n", told


def a_file_tool_and_a_command_make_no_protected_name_together() -> None:
    move = "os.mkdir('x'); os.rename('x', '.cargo')", "os.rmdir('.cargo')"
    _beside_a_file_tool(*move, "x/config.toml", (".cargo/config.toml",))


def a_file_tool_and_a_command_make_no_repository_together() -> None:
    make = "os.mkdir('x/objects'); os.mkdir('x/refs')", "os.rmdir('x/objects'); os.rmdir('x/refs')"
    _beside_a_file_tool(*make, "x/HEAD", ("x/HEAD", "x/objects", "x/refs"))


def _beside_a_file_tool(does: str, undoes: str, path: str, made: tuple[str, ...]) -> None:
    program = (
        "import os, time\nend = time.monotonic() + 4\nwhile time.monotonic() < end:\n"
        f"    for act in {f'{does}; {undoes}; os.unlink({path!r})'.split('; ')}:\n"
        "        try:\n            exec(act)\n        except OSError:\n            pass\n"
        f"        if all(map(os.path.exists, {made})):\n            raise SystemExit('MADE')\n"
    )
    written = 0
    with opened() as session:
        command = session.start(python(program))
        assert not command.refusal, command.refusal
        end = time.monotonic() + 4
        while time.monotonic() < end and not all(map(os.path.exists, made)):
            with suppress(pinfold.FileRefused):
                session.files.write(path, "")
                written += 1
        assert "MADE" not in command.wait().stderr and not all(map(os.path.exists, made))
    assert written


def who_follows_a_command_is_not_kept_by_what_it_left_writing() -> None:
    """Whoever takes longer over a piece of output than it takes to write the next."""
    writes = "import os\nwhile True: os.write(1, bytes(65536))"
    line = f"for i in 1 2; do /usr/bin/python3 -I -c '{writes}' & done; sleep 0.3; exit 3"
    with opened() as session:
        end = time.monotonic() + PATIENCE
        events = session.start(line, timeout=1).events()
        last = None
        while (event := next(events, None)) and time.monotonic() < end:
            last = event
            time.sleep(0.005)
        assert isinstance(last, Exited) and last.exit_code == 3, last
        own = "import fcntl, os\nfcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)\nos.write(1, bytes(1 << 20))"
        events = session.start(python(own)).events()
        time.sleep(1)
        assert sum(len(event.data) for event in events if isinstance(event, Output)) == 1 << 20


def refusals_draw_nothing_on_the_terminal() -> None:
    subprocess.run(["git", "init", "-q"], check=True)
    put("mine/settings.toml", "[filesystem]\ngit_writes = true\n")
    put("drawing", read(".git/config") + '[alias "\x1b]0;drawn\x07"]\n\tx = y\n')
    line = "cp drawing .git/config.lock && mv .git/config.lock .git/config 2>/dev/null"
    told = subprocess.run(
        [sys.executable, "-m", "pinfold", "run", "--settings", "mine/settings.toml", "-c", line],
        capture_output=True,
        check=False,
    ).stderr
    assert b"not known to be harmless" in told and b"\x1b" not in told, told


def what_is_granted_in_the_place_of_a_pens_own_directory_is_held_as_a_root_is() -> None:
    """Where a pen has its own, commands make names by themselves: whatever was granted there was open too."""
    for place in ("/var/tmp", "/dev/shm"):  # not /tmp, where whatever else runs makes things meanwhile
        made = f"{place}/pinfold-{os.getpid()}"
        with opened({"filesystem": {"write": [place]}}) as session:
            result = session.run(f"mkdir {made} && touch {made}/plain && mkdir {made}/.vscode")
        held = os.path.exists(f"{made}/plain") and not os.path.exists(f"{made}/.vscode")
        shutil.rmtree(made)
        assert held and [each.path for each in result.violations] == [f"{made}/.vscode"], result


def what_may_only_be_read_in_a_root_is_not_written() -> None:
    """What is hidden or protected beside it has its parents held in place, which opened it; and where they
    were not, they could be moved, so that the next pen did not find it."""
    here = os.getcwd()
    for name in (
        "a/b/only/file",
        "a/.env",
        "only/c/.env",
        "only/c/.vscode/tasks.json",
        "only/file",
        "d/e/only",
    ):
        put(name)
    settings = {
        "filesystem": {
            "hide": [".env"],
            "read": [f"{here}/{each}" for each in ("a/b/only", "only", "d/e/only")],
        }
    }
    files = "a/b/only/file only/c/file only/file d/e/only"
    line = f"for each in {files}; do echo changed > $each; done; mv a f; mv d g"
    for _ in range(2):
        with opened(settings) as session:
            does(session, line)
    kept = ("a/b/only/file", "only/file", "d/e/only")
    assert [read(name) for name in kept] == [SECRET] * 3 and not os.path.exists("only/c/file")


def what_may_be_written_in_what_may_only_be_read_is_written() -> None:
    here = os.getcwd()
    os.makedirs("a/only/open")
    put("a/.env")
    settings = {
        "filesystem": {"hide": [".env"], "read": [f"{here}/a/only"], "write": [f"{here}/a/only/open"]}
    }
    with opened(settings) as session:
        does(session, "touch a/only/file; touch a/only/open/file a/file")
    assert os.listdir("a/only/open") == ["file"] and os.listdir("a/only") == ["open"]
    assert os.path.exists("a/file")


def what_others_have_closed_in_a_root_is_closed_and_no_hindrance() -> None:
    """Root finds what is protected and hidden there; whoever builds a pen, without its powers, does not."""
    if os.geteuid():
        return
    for name in ("theirs/.vscode/tasks.json", "theirs/deep/.env", "ours/.env"):
        put(name)
    for path in ("theirs", "theirs/deep"):
        os.chown(path, 12345, 12345)
        os.chmod(path, 0o700)
    with opened(ENV) as session:
        stays_hidden(session, "cat theirs/deep/.env theirs/.vscode/tasks.json ours/.env; chmod 755 theirs")
    os.chmod("ours", 0)
    with opened(ENV) as session, suppress(ConfinementError):
        stays_hidden(session, "chmod 755 ours; cat ours/.env")
    os.chmod("ours", 0o755)


def what_others_close_and_open_in_a_root_is_hidden_then() -> None:
    """Root can look into it all the time; its commands cannot, until then."""
    if os.geteuid():
        return
    os.mkdir("apart")
    apart = os.path.abspath("apart")
    for name in ("theirs/deep/.env", "apart/theirs/deep/key"):
        put(name)
    tops = ("theirs", "apart/theirs")
    for top in tops:
        for path in (top, f"{top}/deep"):
            os.chown(path, 12345, 12345)
            os.chmod(path, 0o710)
    settings = {"filesystem": {"hide": [".env", f"{apart}/theirs/deep/key"]}}
    line = "cat theirs/deep/.env apart/theirs/deep/key"
    wait = (
        "until test -e go; do sleep 0.1; done\n"
        "for i in $(seq 300); do\n"
        "    cat theirs/deep/.env || cat apart/theirs/deep/key || exit 0\n    sleep 0.1\ndone; exit 1"
    )
    with opened(settings) as session:
        stays_hidden(session, line)
        waiting = session.start(wait)
        for top in tops:
            for path in (top, f"{top}/deep"):
                os.chmod(path, 0o755)
        put("go")
        assert waiting.wait().exit_code == 0
        stays_hidden(session, line)


def no_key_changes_the_names_that_a_directory_shows() -> None:
    """Without its key (fscrypt) nothing in it has a protected name, so it could be renamed to `.git`."""
    program = (
        "import errno, fcntl, os\nhere = os.open('.', os.O_RDONLY)\n"
        "for request in (0x800C6613, 0xC0506617, 0xC0406618, 0xC0406619):\n"
        "    try:\n        fcntl.ioctl(here, request, bytearray(80), True)\n"
        "    except OSError as error:\n        assert error.errno == errno.EPERM, error\n"
    )
    with opened(GIT) as session:
        result = session.run(python(program))
        assert result.exit_code == 0, result


def nothing_that_runs_as_its_owner_is_left() -> None:
    program = (
        "import os\nopen('a', 'w').close()\n"
        "for act in (lambda: os.chmod('a', 0o4755), lambda: os.fchmod(os.open('a', os.O_RDWR), 0o4755),\n"
        "    lambda: os.open('b', os.O_CREAT | os.O_WRONLY, 0o4755), lambda: os.mknod('c', 0o104755)):\n"
        "    try:\n        act()\n    except OSError as error:\n        print(error)\n"
    )
    with opened() as session:
        does(session, python(program))
    for name in os.listdir():
        assert not os.stat(name).st_mode & 0o4000, name


def no_command_starts_the_machines_crash_handler() -> None:
    """It runs as root, outside, for each program that crashes with any limit but 1."""
    program = (
        "import ctypes, os, resource, struct, subprocess, threading\n"
        "call, at = ctypes.CDLL(None).syscall, resource.RLIMIT_CORE\n"
        "number = 302 if os.uname().machine == 'x86_64' else 261\n"
        "zero, old = ctypes.create_string_buffer(16), ctypes.create_string_buffer(16)\n"
        "def lower():\n"
        "    for pid in (0, os.getpid(), threading.get_native_id(), os.getppid()):\n"
        "        for told in (None, old):\n"
        "            call(number, pid, at, zero, told)\n"
        "    resource.setrlimit(at, (0, 0))\n"
        "lower()\n"
        "thread = threading.Thread(target=lower)\nthread.start()\nthread.join()\n"
        "print(resource.getrlimit(at), flush=True)\n"
        "subprocess.run(['sh', '-c', 'ulimit -c 0 && exec grep core /proc/self/limits'])\n"
    )
    with opened() as session:
        told = " ".join(does(session, python(program)).split())
        assert told == "(1, 1) Max core file size 1 1 bytes", told


PROBES = probes_of(
    globals(), "put", "read", "opened", "python", "does", "stays_hidden", "wait_for_a_walk", "runs_nothing"
)

if __name__ == "__main__":
    run(globals())
