"""The outcome of a tool, without a protocol around it."""

from pathlib import Path
from typing import Any

import pytest

import pinfold
from pinfold.integrations.tools import TOOLS, use
from pinfold.model.errors import ConfinementError


def test_what_a_broken_pen_had_run_is_not_told_as_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: Any) -> None:
        raise ConfinementError(
            "the sandbox died while the command was running; the command may have partly completed"
        )

    with pinfold.Session([tmp_path], settings={}) as session:
        monkeypatch.setattr(session, "start", breaks)
        outcome = use(TOOLS["execute_command"], session, {"command": "make"}, lambda _: None)
    assert outcome.is_error and "may have partly completed" in outcome.text
    assert "nothing was run" not in outcome.text


def test_a_value_that_cannot_be_is_the_models_to_mend(tmp_path: Path) -> None:
    with pinfold.Session([tmp_path], settings={}) as session:
        given = {"command": "true", "timeout": -1}
        outcome = use(TOOLS["execute_command"], session, given, lambda _: None)
    assert outcome.is_error and outcome.data and outcome.data["kind"] == "invalid"
    assert outcome.text.endswith("got -1.0\nnext: call it again with another value")
