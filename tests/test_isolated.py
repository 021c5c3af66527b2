"""How our own code is started: nothing that a command can write says what it loads."""

import ast
import json
import os
import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

import pinfold
from pinfold.integrations.hooks import rewrite
from pinfold.integrations.install.agents import hook_words
from pinfold.isolated import SOURCE, isolated_environment, own_command, program_outside

TOP = Path(__file__).parent.parent
LAUNCHER = Path(SOURCE, "pinfold/launcher.sh")
PACKAGES = Path(msgspec.__file__).parent.parent
NAMES_THE_INTERPRETER = {
    "isolated.py",  # which builds every argv
    "service/local_socket.py",  # a service's name tells what it was started from
    "integrations/hooks/rewrite.py",  # finds the launcher beside it
    "sandbox/linux/host/spawn_keeper.py",  # an interpreter that knows no path of its own starts nothing
    "sandbox/linux/host/keeper_client.py",
    "cli/mcp.py",  # told to a person, with -I
    "diagnose/doctor.py",
    "workspace/policy_source.py",  # it is closed to commands
    "workspace/own_code.py",
    "diagnose/selftest/run.py",  # started inside a pen
}
TRAPS = (
    "sitecustomize",
    "usercustomize",
    "msgspec",
    "pinfold",
    "re",
    "encodings",
    "socket",
    "sqlite3",
    "trap",
)


def planted(directory: Path) -> dict[str, str]:
    """Variables and files by which Python would load from this directory; each leaves a mark there."""
    for name in TRAPS:
        mark = directory / f"loaded-{name}"
        (directory / f"{name}.py").write_text(f"open({str(mark)!r}, 'w').close()\n")
    for name in ("readlink", "python", "python3", "sh", "git", "env"):
        program = directory / name
        program.write_text(f"#!/bin/sh\n: > {directory}/ran-{name}\n")
        program.chmod(0o755)
    (directory / "home").mkdir()
    return {
        **os.environ,
        "HOME": str(directory / "home"),
        "PATH": f".:{directory}:/usr/bin:/bin",
        "PYTHONPATH": f".:{directory}",
        "PYTHONHOME": str(directory),
        "PYTHONSTARTUP": str(directory / "trap.py"),
        "PYTHONUSERBASE": str(directory),
        "PYTHONWARNINGS": "error::trap.Trap",
        "PYTHONBREAKPOINT": "trap.run",
        "PINFOLD_HOOK_SERVICE": "0",
    }


def marks(directory: Path) -> list[str]:
    return sorted(each.name for each in directory.iterdir() if each.name.startswith(("loaded-", "ran-")))


STARTS: Mapping[str, tuple[str, ...]] = {
    "the function": own_command("check", "ls"),
    "a line for an agent": (*rewrite.own_program(), "check", "ls"),
    "a checkout": (str(TOP / "pinfold"), "check", "ls"),
    "a hook": hook_words("claude-code"),
}


@pytest.mark.parametrize("words", STARTS.values(), ids=STARTS)
def test_own_code_starts_isolated(words: tuple[str, ...], tmp_path: Path) -> None:
    environ = planted(tmp_path)
    call = {"hook_event_name": "PreToolUse", "cwd": "/usr", "tool_name": "Bash"}
    payload = json.dumps({**call, "tool_input": {"command": "ls"}})
    done = subprocess.run(
        words, cwd=tmp_path, env=environ, input=payload, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "allow" in done.stdout and marks(tmp_path) == []


def test_the_traps_close_on_a_start_that_is_not_isolated(tmp_path: Path) -> None:
    """Without this, a trap that never closes would prove nothing."""
    environ = {name: value for name, value in planted(tmp_path).items() if name != "PYTHONHOME"}
    (tmp_path / "encodings.py").unlink()
    subprocess.run([sys.executable, "-m", "trap"], cwd=tmp_path, env=environ, check=True)
    assert {"loaded-sitecustomize", "loaded-trap"} <= {*marks(tmp_path)}


def test_a_client_starts_an_isolated_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = planted(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pinfold.Client.start(environ=environ) as client:
        assert client.welcome.version == pinfold.__version__
    assert marks(tmp_path) == []


def test_what_the_loader_is_told_is_out_of_reach(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "project", target_is_directory=True)
    project = str(tmp_path / "project")
    given = {
        "LD_PRELOAD": f"./x.so libjemalloc.so.2:{project}/y.so:/usr/lib/z.so",
        "LD_LIBRARY_PATH": f":lib:{tmp_path}/link/lib:/opt/lib",
        "LD_AUDIT": "x/y.so",
        "PATH": f"bin::.:{project}/node_modules/.bin:{tmp_path}/link/bin:/usr/bin",
        "PYTHONPATH": "/opt/lib",
        "LANG": "C",
    }
    assert isolated_environment(given, (project,)) == {
        "LD_PRELOAD": "libjemalloc.so.2:/usr/lib/z.so",
        "LD_LIBRARY_PATH": "/opt/lib",
        "PATH": "/usr/bin",
        "LANG": "C",
    }


def test_a_program_is_not_taken_from_where_commands_write(tmp_path: Path) -> None:
    environ = planted(tmp_path)
    assert program_outside("git", environ, (str(tmp_path),)).startswith(("/usr/bin/", "/bin/", ""))
    assert not program_outside("git", {"PATH": f".:{tmp_path}"}, (str(tmp_path),))
    (outside := tmp_path / "outside").mkdir()
    (outside / "tool").symlink_to(tmp_path / "git")
    assert program_outside("tool", {"PATH": str(outside)}) == str(outside / "tool")
    assert not program_outside("tool", {"PATH": str(outside)}, (str(tmp_path / "git"),))


# The launcher


def environment(directory: Path) -> Path:
    """A virtual environment with our packages, as pip would leave it."""
    venv.create(directory, symlinks=True)
    (packages,) = directory.glob("lib/python3*/site-packages")
    (packages / "ours.pth").write_text(f"{SOURCE}\n{PACKAGES}\n")
    return installed(directory)


def installed(directory: Path) -> Path:
    (directory / "bin").mkdir(parents=True, exist_ok=True)
    launcher = directory / "bin/pinfold"
    launcher.write_bytes(LAUNCHER.read_bytes())
    launcher.chmod(0o755)
    return launcher


def says_its_version(words: list[str], directory: Path, environ: Mapping[str, str]) -> None:
    done = subprocess.run(
        [*words, "--version"], cwd=directory, env=dict(environ), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"pinfold {pinfold.__version__}\n"), done.stderr


def test_the_launcher_finds_its_environment_from_anywhere(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    environ = planted(work)
    launcher = environment(tmp_path / "a place 'with' $blanks")
    (links := tmp_path / "local bin").mkdir()
    (links / "pinfold").symlink_to(launcher)
    (links / "again").symlink_to("pinfold")
    says_its_version([str(launcher)], work, environ)
    says_its_version([str(links / "pinfold")], work, environ)
    says_its_version(["./again"], links, environ)
    says_its_version(["/bin/sh", "pinfold"], launcher.parent, environ)
    says_its_version(["/usr/bin/env", "pinfold"], work, {**environ, "PATH": f"{links}:/usr/bin:/bin"})
    assert marks(work) == []


def test_the_launcher_asks_the_service_first_to_run_a_command(tmp_path: Path) -> None:
    (work := tmp_path / "work").mkdir()
    environ = planted(work)
    launcher = environment(tmp_path / "here")
    (packages,) = (tmp_path / "here").glob("lib/python3*/site-packages")
    client = packages / "pinfold/integrations/hooks/start.py"
    client.parent.mkdir(parents=True)
    client.write_text("import sys; print(sys.flags.isolated, sys.flags.no_site, sys.argv[1:])")
    done = subprocess.run(
        [launcher, "run", "-c", "echo 'a  b'"],
        cwd=work,
        env=dict(environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == """1 1 ['--pinfold', 'run', '-c', "echo 'a  b'"]\n""", done
    says_its_version([str(launcher)], work, environ)
    assert marks(work) == []


def test_the_launcher_finds_packages_beside_it(tmp_path: Path) -> None:
    """As `pip install --user` leaves them, which -I does not look for by itself."""
    (work := tmp_path / "work").mkdir()
    environ = planted(work)
    launcher = installed(tmp_path / "base")
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = tmp_path / "base/lib" / name / "site-packages"
    packages.mkdir(parents=True)
    for place in (Path(SOURCE), PACKAGES):
        for each in place.iterdir():
            if not (packages / each.name).exists():
                (packages / each.name).symlink_to(each)
    (launcher.parent / name).symlink_to(f"{sys.base_prefix}/bin/{name}")
    says_its_version([str(launcher)], work, environ)
    says_its_version(["./pinfold"], launcher.parent, environ)
    assert marks(work) == []


@pytest.mark.parametrize(("verb", "code"), [("check", 125), ("hook", 2)])
def test_a_launcher_without_its_python_says_so(verb: str, code: int, tmp_path: Path) -> None:
    """To agents any exit status of a hook but 2 would be a yes."""
    launcher = environment(tmp_path / "env")
    for python in launcher.parent.glob("python*"):
        python.unlink()
    done = subprocess.run([launcher, verb, "ls"], capture_output=True, text=True, check=False)
    assert done.returncode == code and done.stderr.count("\n") == 1 and "install pinfold again" in done.stderr


def test_the_installed_command_is_the_launcher() -> None:
    project = (TOP / "pyproject.toml").read_text()
    assert "[project.scripts]" not in project and '"src/pinfold/launcher.sh" = "pinfold"' in project
    assert os.access(LAUNCHER, os.X_OK)


def test_another_script_is_not_taken_for_the_launcher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "pinfold"
    script.write_text(f"#!{sys.executable}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    program = rewrite.own_program.__wrapped__
    assert program()[1] == "-I"
    installed_one = installed(tmp_path / "x")
    monkeypatch.setattr(sys, "executable", str(installed_one.with_name("python")))
    assert program() == (str(installed_one),)


# The tree


def test_nothing_else_starts_python() -> None:
    """Whoever names the interpreter could start it without -I; a new one has its reason above."""
    found = {
        str(path.relative_to(Path(SOURCE, "pinfold")))
        for path in Path(SOURCE, "pinfold").rglob("*.py")
        if "sys.executable" in path.read_text() or "_base_executable" in path.read_text()
    }
    assert found == NAMES_THE_INTERPRETER


def test_no_argv_names_python_but_by_the_function() -> None:
    for path in Path(SOURCE, "pinfold").rglob("*.py"):
        if path.name == "isolated.py" or "selftest" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Tuple | ast.List) and node.elts:
                first = ast.unparse(node.elts[0])
                is_python = first == "sys.executable" or first.strip("'\"") in ("python", "python3")
                follows = [ast.unparse(each) for each in node.elts[1:2]]
                assert not (is_python and follows and follows[0].startswith(("'-", '"-'))), (
                    path,
                    node.lineno,
                )


def test_an_agent_is_not_taken_from_the_project(tmp_path: Path) -> None:
    environ = planted(tmp_path)
    agent = tmp_path / "agent"
    agent.write_text(f"#!/bin/sh\n: > {tmp_path}/ran-agent\n")
    agent.chmod(0o755)
    words = own_command("acp", "--", "agent")
    done = subprocess.run(
        words, cwd=tmp_path, env=environ, input="", capture_output=True, text=True, check=False
    )
    assert done.returncode == 125 and "not found in PATH outside the project" in done.stderr
    assert marks(tmp_path) == []
