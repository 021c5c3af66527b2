"""cgroup v2: where groups may be made, what they are told, and their life on this machine."""

import os
import subprocess
from pathlib import Path

import pytest

from pinfold.kernel import cgroups
from tests.kernel.child import NOBODY, in_child

UNIFIED = "30 20 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
PART = "30 20 0:26 /box/a /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
OLD = "31 20 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"


@pytest.mark.parametrize(
    ("mounts", "groups", "found"),
    [
        (f"{OLD}\n{UNIFIED}", "4:memory:/x\n0::/", ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified")),
        (UNIFIED, "0::/a/b.scope", ("/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/a/b.scope")),
        (PART, "0::/box/a/b", ("/sys/fs/cgroup", "/sys/fs/cgroup/b")),
        (PART, "0::/box/a", ("/sys/fs/cgroup", "/sys/fs/cgroup")),
        (PART, "0::/box/abc", None),
        (UNIFIED, "0::/../elsewhere", None),
        (OLD, "0::/", None),
        (UNIFIED, "4:memory:/x", None),
    ],
)  # fmt: skip
def test_our_own_group(mounts: str, groups: str, found: tuple[str, str] | None) -> None:
    assert cgroups.own_group(mounts, groups) == found


def hierarchy(top: Path, controls: dict[str, str]) -> None:
    """Directories that stand for groups, each with the controllers that its children have."""
    for name, control in controls.items():
        path = top / name
        path.mkdir(parents=True, exist_ok=True)
        (path / "cgroup.subtree_control").write_text(control)
        (path / "cgroup.procs").write_text("")


def test_the_nearest_group_that_gives_the_controllers(tmp_path: Path) -> None:
    hierarchy(tmp_path, {"": "cpu memory pids", "a": "memory pids\n", "a/b": "pids", "a/b/c": ""})
    top = str(tmp_path)
    assert cgroups.nearest(top, f"{top}/a/b/c", ("memory", "pids")) == (f"{top}/a", "")
    assert cgroups.nearest(top, f"{top}/a/b/c", ("pids",)) == (f"{top}/a/b", "")
    assert cgroups.nearest(top, f"{top}/a/b/c", ("cpu",)) == (top, "")
    assert "io" in cgroups.nearest(top, f"{top}/a/b/c", ("io",)).trouble


def test_a_group_of_somebody_else_is_passed_over() -> None:
    top = Path("/sys/fs/cgroup/unified")
    if os.geteuid() or not (top / "cgroup.procs").exists():
        pytest.skip("no cgroup v2 that belongs to root and is asked for by another")
    place = in_child(lambda: cgroups.nearest(str(top), str(top), ()), NOBODY)
    assert "delegated" in place.trouble


def test_limits_are_written(tmp_path: Path) -> None:
    for name in ("memory.max", "memory.swap.max", "pids.max"):
        (tmp_path / name).touch()
    cgroups.limit(str(tmp_path), 1 << 20, None)
    told = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert told == {"memory.max": "1048576", "memory.swap.max": "0", "pids.max": ""}
    (tmp_path / "memory.swap.max").unlink()
    cgroups.limit(str(tmp_path), 4096, 100)
    assert (tmp_path / "pids.max").read_text() == "100"


def test_a_limit_that_cannot_be_written_leaves_no_group(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cgroup: No such file") as caught:
        cgroups.make(str(tmp_path), "g", 1 << 20, None)
    assert caught.value.filename.endswith("g/memory.max") and not list(tmp_path.iterdir())


def test_a_group_lives_as_long_as_somebody_is_in_it() -> None:
    place = cgroups.find(())
    if place.trouble:
        pytest.skip(place.trouble)
    path = cgroups.make(place.path, f"pinfold-test-{os.getpid()}", None, None)
    sleeper = subprocess.Popen(["sleep", "100"])
    try:
        cgroups.add(path, sleeper.pid)
        assert Path(path, "cgroup.procs").read_text().split() == [str(sleeper.pid)]
        assert os.path.basename(path) in cgroups.names(place.path)
        assert not cgroups.remove(path)
        sleeper.kill()
        sleeper.wait()
        assert cgroups.remove(path) and cgroups.remove(path) and not os.path.exists(path)
    finally:
        sleeper.kill()
        sleeper.wait()
        cgroups.remove(path)
