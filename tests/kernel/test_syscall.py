"""The way into the kernel: names, numbers, and how it fails."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pinfold.kernel import syscall
from pinfold.kernel.files import birth

SOURCE = Path(syscall.__file__).parents[2]
HEADERS = {"x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"}
MODULES = sorted(path.stem for path in Path(syscall.__file__).parent.glob("*.py") if path.stem != "__init__")


def test_a_call_by_name() -> None:
    assert syscall.system_call("getpid") == os.getpid()


def test_an_error_names_the_call_and_the_path() -> None:
    with pytest.raises(FileNotFoundError, match="chdir: No such file") as caught:
        syscall.system_call("chdir", b"/no/such", path="/no/such")
    assert caught.value.filename == "/no/such"


def test_a_call_the_machine_does_not_have() -> None:
    with pytest.raises(OSError, match="no such system call") as caught:
        syscall.system_call("tune_the_piano")
    assert caught.value.errno == errno.ENOSYS


def test_ints_keep_their_upper_half() -> None:
    reader, writer = os.pipe()
    try:
        # A size that an int would make 1.
        with pytest.raises(OSError, match="write: Bad address"):
            syscall.system_call("write", writer, 8, (1 << 32) | 1)
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("path", ["a\0b", b"\0"])
def test_a_path_with_nul_is_refused(path: str | bytes) -> None:
    with pytest.raises(ValueError, match="null"):
        syscall.path_bytes(path)


@pytest.mark.parametrize("architecture", syscall.ARCHITECTURES)
def test_numbers_are_unique(architecture: str) -> None:
    table = syscall.NUMBERS[architecture]
    assert len(set(table.values())) == len(table)
    assert all(syscall.name_of(number, architecture) == name for name, number in table.items())


@pytest.mark.parametrize(
    ("architecture", "name", "number"),
    [
        ("x86_64", "read", 0),
        ("x86_64", "openat", 257),
        ("x86_64", "seccomp", 317),
        ("aarch64", "openat", 56),
        ("aarch64", "clone", 220),
        ("aarch64", "seccomp", 277),
        ("x86_64", "landlock_restrict_self", 446),
        ("aarch64", "open_tree_attr", 467),
    ],
)
def test_numbers(architecture: str, name: str, number: int) -> None:
    assert syscall.NUMBERS[architecture][name] == number


def test_numbers_agree_with_the_headers() -> None:
    header = Path(HEADERS["x86_64"])
    if not header.exists():
        pytest.skip("no kernel headers here")
    found = re.findall(r"#define __NR_(\w+) (\d+)", header.read_text())
    assert {name: int(number) for name, number in found}.items() <= syscall.NUMBERS["x86_64"].items()


@pytest.mark.parametrize("module", MODULES)
def test_every_module_loads_without_site_packages(module: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(SOURCE)!r}); import pinfold.kernel.{module}"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_birth_tells_two_files_apart(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    first = birth(path)
    if first is None:
        pytest.skip("this file system does not know when a file was made")
    path.write_text("more")
    path.chmod(0o600)
    assert birth(path) == first
    path.unlink()
    path.write_text("")
    assert birth(path) != first
    assert abs(first[0] - path.stat().st_mtime) < 100
    with pytest.raises(FileNotFoundError):
        birth(tmp_path / "missing")
