"""A host that has the project on `sys.path` imports nothing for us that a command has made there."""

import os
import subprocess
import sys
from pathlib import Path

from pinfold.isolated import SOURCE
from pinfold.workspace.import_guard import OURS, Guard

NAMES = (
    "sqlite3",
    "_sqlite3",
    "subprocess",
    "concurrent",
    "importlib",
    "queue",
    "h11",
    "idna",
    "rich",
    "wave",
)
PROGRAM = """
import pinfold, sys
names = sys.argv[1].split()
settings = {"network": {"access": "ask"}}
with pinfold.Session(["."], settings=settings) as session:
    for name in names:
        made = session.run(f"echo 'open(\\"loaded-{name}\\", \\"w\\")' > {name}.py; echo $PINFOLD_PEN")
        assert made.exit_code == 0, (made.refusal, made.stderr)
    assert session.run("python3 -I -c 'print(1)'").stdout == "1\\n"
    session.run("getent hosts example.test").violations
    import wave, made_by_hand
    assert wave.__file__ and "made_by_hand" in sys.modules
"""


def test_a_host_imports_nothing_for_us_that_a_command_made(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "project/made_by_hand.py").write_text("")
    environ = {**os.environ, "HOME": str(tmp_path / "home"), "PYTHONPATH": SOURCE}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, " ".join(NAMES)],
        cwd=tmp_path / "project", env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not [each.name for each in (tmp_path / "project").glob("loaded-*")]
    assert len([*(tmp_path / "project").glob("*.py")]) == len(NAMES) + 1


def test_what_was_there_before_stays_the_programs_own(tmp_path: Path) -> None:
    (tmp_path / "wave.py").write_text("")
    guard = Guard()
    sys.path.insert(0, str(tmp_path))
    try:
        guard.add([str(tmp_path)])
        (tmp_path / "chunk.py").write_text("")
        (tmp_path / "theirs.py").write_text("")
        assert guard.find_spec("wave") is None and guard.find_spec("theirs") is None
        found = guard.find_spec("colorsys")
        assert found and not str(found.origin).startswith(str(tmp_path))
        assert guard.find_spec("os.path", ["x"]) is None and "rich" in OURS
    finally:
        sys.path.remove(str(tmp_path))


def test_a_file_or_directory_that_is_no_module_keeps_no_name_open(tmp_path: Path) -> None:
    (tmp_path / "sqlite3.db").write_text("")
    (tmp_path / "wave.cfg").write_text("")
    (tmp_path / "queue").mkdir()
    (tmp_path / "rich").mkdir()
    (tmp_path / "rich/__init__.py").write_text("")
    guard = Guard()
    sys.path.insert(0, str(tmp_path))
    try:
        guard.add([str(tmp_path)])
        for made in ("sqlite3.py", "wave.py", "queue/__init__.py"):
            (tmp_path / made).write_text("")
        for name in ("sqlite3", "wave", "queue"):
            found = guard.find_spec(name)
            assert found and not str(found.origin).startswith(str(tmp_path)), name
        assert guard.find_spec("rich") is None, "it was a package before"
    finally:
        sys.path.remove(str(tmp_path))
