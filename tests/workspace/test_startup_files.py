"""Links from the home, and variables, that lead into a project."""

import os
from pathlib import Path

import pytest

from pinfold.workspace.startup_files import StartupFiles


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path.resolve() / "home"
    (home / "project").mkdir(parents=True)
    return home


def led(home: Path, **environ: str) -> set[str]:
    top = f"{home}/project"
    return {os.path.relpath(path, top) for path in StartupFiles(str(home), environ).of((top,))}


def test_a_link_with_a_protected_name_and_those_on_its_way(home: Path) -> None:
    (home / "project/link").symlink_to("real")
    (home / ".bashrc").symlink_to("project/link")
    (home / ".config").symlink_to("project/config")
    assert {"link", "real", "config/nvim", "config/git"} <= led(home)
    (home / "fine").symlink_to("project/fine")
    assert "fine" not in led(home)


def test_links_in_a_directory_with_a_protected_name(home: Path) -> None:
    (home / ".config/systemd/user").mkdir(parents=True)
    (home / ".config/systemd/user/x.service").symlink_to(home / "project/x.service")
    (home / ".ssh").mkdir()
    (home / ".ssh/config").symlink_to(home / "project/ssh")
    assert led(home) == {"x.service", "ssh"}


def test_a_program_of_the_projects_that_a_person_calls_by_its_name_stays_theirs(home: Path) -> None:
    (home / ".local/bin").mkdir(parents=True)
    (home / ".local/bin/tool").symlink_to(home / "project/target/tool")
    assert led(home) == set()
    (home / ".local/bin/tool").unlink()
    (home / ".local/bin").rmdir()
    (home / ".local/bin").symlink_to(home / "project/bin")
    assert led(home) == {"bin"}


def test_a_link_to_the_project_itself_does_not_close_it(home: Path) -> None:
    (home / ".emacs.d").symlink_to("project")
    (home / ".oh-my-zsh").symlink_to(home)
    assert led(home) == set()


def test_variables_that_name_configuration(home: Path) -> None:
    top = f"{home}/project"
    given = {"CLAUDE_CONFIG_DIR": f"{top}/agent", "BASH_ENV": f"{top}/env.sh", "ENV": "relative"}
    assert led(home, **given, XDG_CONFIG_HOME=top) == {"agent", "env.sh"}
