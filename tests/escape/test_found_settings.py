"""Files of a project by which less was asked than without them, found by attacking the layers."""

import os
from pathlib import Path

import pytest

from pinfold.model.decision import Decision, Verdict
from pinfold.session.judge import AgentTurn, Judge

STRICTEST_FIRST = tuple(Verdict)
BARE = ("[sandbox]\nenabled = false\n", '[sandbox]\npolicy = "danger-full-access"\n')
FENCED = ("", '[network]\naccess = "all"\n')
ALLOWED = '[commands]\nallow = ["make"]\n'
OFFERED = (
    "[sandbox]\nenabled = true\n",
    '[sandbox]\npolicy = "read-only"\n',
    '[sandbox]\npolicy = "workspace-write"\nenabled = true\nauto_allow = true\n',
    "[sandbox]\nallow_unsandboxed = false\nenabled = true\n",
)
# What is known to be safe is none of these: inside a fence it needs no allowlist.
LINES = ("make", "npm test", "python3 x.py", "$X", "if", "")


def decided(home: Path, line: str) -> Decision:
    project = str(home / "project")
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
    judge = Judge((project,), project, None, {}, environ, AgentTurn())
    try:
        return judge.check(line)
    finally:
        judge.close()


@pytest.mark.parametrize("offered", OFFERED)
@pytest.mark.parametrize("user", [*BARE, *FENCED])
@pytest.mark.parametrize("rules", ["", ALLOWED])
def test_nobody_is_asked_less_for_what_a_project_says(
    user: str, rules: str, offered: str, tmp_path: Path
) -> None:
    for path, text in ((".config/pinfold", user + rules), ("project/.pinfold", "")):
        (tmp_path / path).mkdir(parents=True)
        (tmp_path / path / "settings.toml").write_text(text)
    before = [decided(tmp_path, line) for line in LINES]
    (tmp_path / "project/.pinfold/settings.toml").write_text(offered)
    after = [decided(tmp_path, line) for line in LINES]
    for line, now, then in zip(LINES, after, before, strict=True):
        assert STRICTEST_FIRST.index(now.verdict) <= STRICTEST_FIRST.index(then.verdict), line
        assert now.sandboxed or not then.sandboxed, line
    if user in FENCED:
        assert [each.verdict for each in after] == [each.verdict for each in before]
