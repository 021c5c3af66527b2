"""From a hook's answer to the run that an agent makes of it, as two users. Probes: `probes/`."""

import subprocess
import sys

import pytest

from pinfold.integrations.hooks import hook_process
from tests.integrations.hooks.probes.ask import ASKING
from tests.probe_runner import USERS, run_at_home

PINFOLD = [sys.executable, "-m", "pinfold"]


@pytest.mark.skipif(sys.platform != "linux", reason="the fence is Linux's")
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("name", ASKING)
def test_asking(name: str, user: str) -> None:
    run_at_home(user, name, "tests.integrations.hooks.probes.ask")


def test_a_hook_that_is_interrupted_blocks_and_is_no_fault(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupt() -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(hook_process, "_read", interrupt)
    assert hook_process.respond("codex") == 2
    assert capfd.readouterr().err == "pinfold: it was interrupted\n"


def test_a_hook_that_fails_by_itself_blocks(environ: dict[str, str]) -> None:
    for arguments in (["hook"], ["hook", "nobody"], ["hook", "codex", "--what"]):
        run = subprocess.run([*PINFOLD, *arguments], input=b"{}", env=environ, capture_output=True)
        assert run.returncode == 2 and run.stderr
    closed = f"{' '.join(PINFOLD)} hook codex <&-"
    run = subprocess.run(["bash", "-c", closed], env=environ, capture_output=True)
    assert run.returncode == 2 and run.stderr
