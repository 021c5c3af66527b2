"""What only root may read, against commands that have root's uid. Each function runs in a child of the tests,
as root and as an ordinary user, in a workspace of its own. Its name says what must hold."""

import os
import shutil
import subprocess
import sys
from typing import Any

from tests.escape.probes.sandbox import SECRET, does, opened, put
from tests.probe_module import PYTHON, SKIPPED, probes_of, run

from pinfold.kernel import mounts, namespaces
from pinfold.sandbox.linux.init.closed_tree import ALL_BUT_ROOT

HOME = os.environ.get("HOME", "")
HOUSE = os.path.dirname(HOME)
WALK = """
import os, stat, sys
limit, tops, *own = sys.argv[1:]
seen = opened = 0
def others_may(path):
    status = os.lstat(path)
    # An ordinary user's own files may lie anywhere.
    return status.st_mode & 4 or 0 < os.getuid() == status.st_uid
def tell(path):
    if not any((path + "/").startswith(each + "/") for each in own): print("OPENED", path)
for top in tops.split():
    for directory, names, files in os.walk(top):
        if not others_may(directory) and os.access(directory, os.R_OK): tell(directory)
        for name in files:
            path = directory + "/" + name
            seen += 1
            if seen > int(limit): raise SystemExit("too many files")
            try:
                status = os.lstat(path)
                if not stat.S_ISREG(status.st_mode): continue
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            except OSError: continue
            opened += 1
            if not others_may(path): tell(path)
print("through", opened > 100)
"""


def _close(path: str, mode: int) -> str:
    os.chmod(path, mode)
    return path


def _require_mappable_root() -> None:
    """Skips where the kernel says that the machine's tree cannot be closed."""
    if os.geteuid():
        return
    tree = mounts.open_tree(mounts.AT_FDCWD, "/")
    try:
        mounts.map_ids(tree, namespaces.mapping(ALL_BUT_ROOT))
    except OSError as error:
        print(f"the machine's root file system maps no ids: {error}")
        sys.exit(SKIPPED)
    finally:
        os.close(tree)


def nothing_is_read_that_only_root_may_read() -> None:
    _require_mappable_root()
    _nothing_is_read("/etc", "/root", "/var")


def where_no_ids_can_be_mapped_nothing_is_read_either() -> None:
    if os.geteuid():
        print("root alone can make the file system of a container")
        sys.exit(SKIPPED)
    secret = _close(put(f"{HOUSE}/closed/deep/secret"), 0o600)
    os.chmod(f"{HOUSE}/closed", 0o755)
    _move_into_overlay()
    # Elsewhere other tests make files meanwhile.
    _nothing_is_read("/etc", "/root")
    with opened() as session:
        assert does(session, "echo made > made; cat made") == "made\n"
        assert session.run(["cat", secret]).exit_code


def _move_into_overlay() -> None:
    """As in most containers: from here on `/` is an overlay of what it was."""
    namespaces.unshare(namespaces.CLONE_NEWNS)
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
    layers = f"{HOUSE}/layers"
    os.mkdir(layers)
    mounts.mount("layers", layers, "tmpfs", 0)
    for name in ("upper", "work", "root"):
        os.mkdir(f"{layers}/{name}", 0o755)
    options = f"lowerdir=/,upperdir={layers}/upper,workdir={layers}/work"
    mounts.mount("container", f"{layers}/root", "overlay", 0, options)
    for place in ("/proc", "/dev", "/sys", "/tmp"):
        mounts.mount(place, f"{layers}/root{place}", None, mounts.MS_BIND | mounts.MS_REC)
    here = os.getcwd()
    os.chdir(f"{layers}/root")
    mounts.pivot_root(".", ".")
    mounts.umount(".", 2)  # MNT_DETACH
    os.chdir(here)


def _nothing_is_read(*tops: str) -> None:
    own = (os.getcwd(), HOME, os.path.realpath(sys.prefix), os.path.realpath(sys.base_prefix))
    with opened() as session:
        told = does(session, [PYTHON, "-I", "-c", WALK, "2000000", " ".join(tops), *own])
        assert told == "through True\n", told
        for path in ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/proc/keys", "/proc/slabinfo"):
            result = session.run(["cat", path])
            assert result.exit_code and not result.stdout, result


def what_the_machine_closes_later_is_closed_too() -> None:
    _require_mappable_root()
    secret = f"{HOUSE}/later/secret"
    with opened() as session:
        _close(put(secret), 0o600)
        os.chmod(os.path.dirname(secret), 0o755)
        for line in (f"cat {secret}", f"cat /proc/self/root{secret}", f"cp {secret} ./copy; cat copy"):
            if os.geteuid() == 0:
                assert SECRET not in does(session, line), line
        # Nor by a name in the workspace, nor by a handle of its mount.
        assert session.run(f"ln {secret} linked && cat linked").exit_code


def what_is_granted_in_a_closed_directory_is_open_alone() -> None:
    _require_mappable_root()
    closed = f"{HOUSE}/closed"
    for name in ("granted", "other", "project/file"):
        _close(put(f"{closed}/{name}"), 0o600)
    inner = _close(put(f"{HOME}/inner/granted"), 0o600)
    for path in (closed, os.path.dirname(inner)):
        _close(path, 0o700)
    settings: dict[str, Any] = {"filesystem": {"read": [f"{closed}/granted", inner]}}
    with opened(settings, f"{closed}/project") as session:
        assert does(session, f"cat {closed}/granted {inner} file; pwd; echo new > made; cat made") == (
            f"{SECRET}{SECRET}{SECRET}{closed}/project\nnew\n"
        )
        if os.geteuid() == 0:
            assert does(session, f"ls {closed}").split() == ["granted", "project"]
        assert session.run(f"echo x > {closed}/project/../other").exit_code


def a_project_that_is_a_mount_in_a_closed_directory_can_be_worked_in() -> None:
    """As a disk or an image of somebody's below `/root` is."""
    if os.geteuid():
        print("root alone can mount a project")
        sys.exit(SKIPPED)
    _require_mappable_root()
    closed = f"{HOUSE}/closed"
    project = f"{closed}/disk/project"
    os.makedirs(f"{closed}/disk")
    namespaces.unshare(namespaces.CLONE_NEWNS)
    mounts.mount(None, "/", None, mounts.MS_REC | mounts.MS_PRIVATE)
    mounts.mount("disk", f"{closed}/disk", "tmpfs", 0)
    for name in ("project/file", "other"):
        _close(put(f"{closed}/disk/{name}"), 0o600)
    _close(closed, 0o700)
    with opened(None, project) as session:
        assert does(session, "cat file; echo new > made; cat made") == f"{SECRET}new\n"
        assert does(session, "stat -c %u /etc") != "0\n", "ids are not mapped, although they can be"
        assert session.run(f"cat {closed}/disk/other").exit_code
        assert session.run(f"echo x > {closed}/disk/other").exit_code


def _host(*arguments: str) -> None:
    settings = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *settings, *arguments], check=True, capture_output=True)


def ordinary_work_in_a_closed_home_goes_on() -> None:
    tool = put(f"{HOME}/.local/bin/tool", "#!/bin/sh\necho tool\n")
    _close(tool, 0o700)
    _close(put(f"{HOME}/.local/share/tool/data", "data\n"), 0o600)
    _close(HOME, 0o700)
    project, repository = f"{HOME}/project", f"{HOUSE}/repository"
    for path in (project, repository):
        put(f"{path}/file", "text\n")
        _host("init", path)
        _host("-C", path, "add", ".")
        _host("-C", path, "commit", "-m", "first")
    _close(f"{project}/file", 0o600)
    for policy in ("workspace-write", "read-only"):
        with opened({"sandbox": {"policy": policy}}, project) as session:
            lines = {
                f"{tool}; cat {HOME}/.local/share/tool/data file": "tool\ndata\ntext\n",
                "git log --format=%s; git status --short": "first\n",
                f"git -C {repository} log --format=%s": "first\n",
                "python3 -c 'import json, ssl; print(1)'": "1\n",
                "id -u": f"{os.getuid()}\n",
            }
            if shutil.which("apt"):
                lines["apt list --installed 2>/dev/null | grep -c ^base-files/"] = "1\n"
            for line, wanted in lines.items():
                result = session.run(line)
                assert result.stdout == wanted, (policy, line, result)


PROBES = probes_of(globals())

if __name__ == "__main__":
    run(globals())
