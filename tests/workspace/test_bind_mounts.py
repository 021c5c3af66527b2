"""Where else things lie. Lines tell what is mounted, and the inode proves it: so these are real files."""

import os
from pathlib import Path
from time import process_time

from pinfold.workspace.bind_mounts import Mount, other_mount_points, parse_mounts


def test_mountinfo_is_read_with_its_blanks() -> None:
    lines = (
        b"22 27 0:21 / /proc rw,relatime - proc proc rw\n"
        b"30 27 254:0 /a\\040b /mnt/with\\134slash rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n"
        b"31 27 254:1 / /mnt/a\rb rw,relatime - ext4 /dev/vdb rw\n"
    )
    assert parse_mounts(lines) == (
        Mount("0:21", "/", "/proc"),
        Mount("254:0", "/a b", "/mnt/with\\slash"),
        Mount("254:1", "/", "/mnt/a\rb"),
    )


def test_layers_of_an_overlay_are_read() -> None:
    options = b"rw,lowerdir=/a\\134:b:/c\\040d,lowerdir+=/e,upperdir=/up\\054,workdir=/work,datadir+=relative"
    (overlay,) = parse_mounts(b"30 27 0:9 / /over rw shared:1 - overlay over " + options + b"\n")
    assert overlay.layers == ("/a:b", "/c d", "/e", "/up,")
    assert parse_mounts(b"30 27 8:1 / /x rw - ext4 /dev/vda rw,lowerdir=/a\n")[0].layers == ()


def test_a_mount_point_may_have_a_carriage_return() -> None:
    assert parse_mounts(b"30 27 8:1 / /a\rb rw - ext4 /dev/vda rw\n") == (Mount("8:1", "/", "/a\rb"),)


def test_thousands_of_mounts_of_one_device_are_looked_through_in_no_time(tmp_path: Path) -> None:
    """As where containers have their volumes bound from one disk."""
    mounted = [Mount("8:1", f"/volumes/{number}", f"/pods/{number}") for number in range(5000)]
    (tmp_path / "key").write_text("")
    started = process_time()
    assert not list(other_mount_points([str(tmp_path / "key")], [Mount("8:1", "/", "/"), *mounted]))
    assert process_time() - started < 1


def test_a_thing_is_found_wherever_its_device_is_mounted(tmp_path: Path) -> None:
    """Hard links stand for the second mount: the same inode at another path."""
    home, whole, part = (tmp_path / name for name in ("home", "whole", "part"))
    for directory in (home / "u", whole / "homes" / "u", part):
        directory.mkdir(parents=True)
    (home / "u" / "key").write_text("")
    for other in (whole / "homes" / "u" / "key", part / "key"):
        os.link(home / "u" / "key", other)
    mounted = (
        Mount("8:1", "/homes", str(home)),
        Mount("8:1", "/", str(whole)),
        Mount("8:1", "/homes/u", str(part)),
        Mount("8:2", "/", str(tmp_path)),
    )
    assert set(other_mount_points([str(home / "u" / "key")], mounted)) == {
        str(whole / "homes" / "u" / "key"),
        str(part / "key"),
    }


def test_of_a_hidden_directory_the_part_is_found_that_is_mounted_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "ssh").mkdir()
    (tmp_path / "ssh" / "key").write_text("")
    os.link(tmp_path / "ssh" / "key", tmp_path / "key")
    mounted = (Mount("8:1", "/", str(tmp_path)), Mount("8:1", "/ssh/key", str(tmp_path / "key")))
    assert list(other_mount_points([str(tmp_path / "ssh")], mounted)) == [str(tmp_path / "key")]


def test_what_another_mount_covers_is_no_double(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text("")
    mounted = (Mount("8:1", "/", str(tmp_path / "one")), Mount("8:1", "/", str(tmp_path / "two")))
    assert not list(other_mount_points([str(tmp_path / "one" / "key")], mounted))
