"""What holds of learning from a run, and of reads that are noted: each runs in a child, as root and not."""

import os
from typing import Any

import pinfold
from tests.sandbox.probing import probes_of, run

HOME = os.environ.get("HOME", "")
OUT = f"{HOME}/out"


def write(path: str, text: str = "secret\n") -> str:
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    return path


def noting(settings: dict[str, Any] | None = None, **given: Any) -> pinfold.Session:
    return pinfold.Session([os.getcwd()], settings=settings or {}, notes_reads=True, **given)


def reads(result: pinfold.Result) -> dict[str, str]:
    return {each.path: each.rule for each in result.violations if each.operation == "read"}


# Reads


def a_read_of_something_hidden_is_told_with_its_rule() -> None:
    key, work = write(f"{HOME}/.ssh/id"), os.getcwd()
    write(".env")
    write(".pinfoldignore", ".env\n")
    write("plans/secret.txt")
    os.symlink(key, "link")
    os.symlink(f"{HOME}/.ssh", "keys")
    with noting({"filesystem": {"hide": ["plans"]}}) as session:
        for line, path, rule in (
            ("cat .env", f"{work}/.env", "an ignore file"),
            ("cat < .env", f"{work}/.env", "an ignore file"),
            ("cat plans/secret.txt", f"{work}/plans/secret.txt", "plans"),
            ("cd plans && cat secret.txt", f"{work}/plans/secret.txt", "plans"),
            ("ls ~/.ssh", f"{HOME}/.ssh", f"{HOME}/.ssh"),
            ("cat ~/.ssh/id", key, f"{HOME}/.ssh"),
            ("cat ~/.ssh/deep/er", f"{HOME}/.ssh/deep/er", f"{HOME}/.ssh"),
            ("cat link", key, f"{HOME}/.ssh"),
            ("cat keys/id", key, f"{HOME}/.ssh"),
            ("cat keys/../.ssh/./id", key, f"{HOME}/.ssh"),
        ):
            result = session.run(line)
            assert reads(result) == {path: rule}, (line, result)
            assert "secret" not in result.stdout.replace("secret.txt", ""), line
            (told,) = result.violations
            assert told.origin and not told.grantable and told.program in ("cat", "bash", "ls"), told


def a_read_of_anything_else_is_told_by_nobody() -> None:
    write("here", "open\n")
    with noting() as session:
        result = session.run(
            "cat here /etc/hostname; cat nowhere /nowhere/at/all; ls / > /dev/null; python3 -c 'import json'"
        )
        assert "open" in result.stdout and not result.violations, result
        # What writes is judged as ever.
        result = session.run(f"echo new > made; cat made; echo x > {HOME}/outside")
        assert result.stdout == "new\n" and [each.operation for each in result.violations] == ["open"]


def what_is_hidden_while_a_command_runs_is_noted_too() -> None:
    write(".pinfoldignore", "late.env\n")
    with noting() as session:
        execution = session.start("until cat late.env 2> errors; grep -q denied errors; do sleep 0.1; done")
        write("late.env")
        result = execution.wait()
        assert reads(result) == {f"{os.getcwd()}/late.env": "an ignore file"}, result


def reads_are_not_noted_unless_asked_for() -> None:
    write(f"{HOME}/.ssh/id")
    with pinfold.Session([os.getcwd()], settings={}) as session:
        assert not session.run("cat ~/.ssh/id").violations
        assert "notereads" not in session.fences.fenced().plan(session.policy)


LEARNINGS = probes_of(globals(), "write", "noting", "reads")

if __name__ == "__main__":
    run(globals())
