"""An administrator who insists on the fence means a real one."""

from pathlib import Path

import pytest
from tests.settings.loaded import shape

from pinfold.model.policy import PolicyType
from pinfold.settings import Sources, load

INSISTING = [
    "[sandbox]\nenabled = true\n",
    "[sandbox]\nallow_unsandboxed = false\n",
    '[admin]\nsandboxing = "enabled"\n',
]


@pytest.mark.parametrize("managed", INSISTING)
def test_no_fence_is_no_policy_under_it(managed: str, tmp_path: Path) -> None:
    (tmp_path / "managed.toml").write_text(managed)
    wanted = {"mode": "run_everything", "sandbox": {"policy": "danger-full-access"}}
    for sources in (
        Sources(managed=str(tmp_path / "managed.toml"), user_values=wanted),
        Sources(managed=str(tmp_path / "managed.toml"), overrides=wanted),
        Sources(managed=str(tmp_path / "managed.toml"), environment={"PINFOLD_POLICY": "danger-full-access"}),
    ):
        settings = load(sources, shape)
        assert settings.sandbox.policy is PolicyType.WORKSPACE_READWRITE
        assert settings.cap.policy.type is PolicyType.WORKSPACE_READWRITE
        assert any("danger-full-access" in notice for notice in settings.notices)
