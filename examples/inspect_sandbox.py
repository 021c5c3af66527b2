"""A sandbox provider for Inspect AI: pip install inspect-ai. Each sample has its own directory and session.

With this module imported, or named as an entry point of yours: Task(..., sandbox="pinfold").
"""

import os
import sys
import tempfile
from typing import Any, Literal, overload

import inspect_ai
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.solver import basic_agent
from inspect_ai.tool import bash
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)

import pinfold

NOT_EXECUTABLE = 126
SETTINGS = {"network": {"access": "none"}, "limits": {"output": "100MB"}}


@sandboxenv(name="pinfold")
class Pinfold(SandboxEnvironment):
    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.session = pinfold.AsyncSession([self.directory.name], settings=SETTINGS, cwd=self.directory.name)

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: dict[str, str]) -> Any:
        return {"default": cls()}

    @classmethod
    async def sample_cleanup(cls, task_name: str, config: Any, environments: Any, interrupted: bool) -> None:
        for environment in environments.values():
            await environment.session.close()
            environment.directory.cleanup()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        if user not in (None, str(os.geteuid())):
            raise SandboxUserUnsupportedError(f"everything runs as {os.geteuid()}")
        result = await self._run(cmd, input, timeout, cwd, env)
        if len(result.stdout_bytes) > SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE:
            raise OutputLimitExceededError(
                SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, result.stdout[: 1 << 20]
            )
        if result.exit_code == NOT_EXECUTABLE and "ermission denied" in result.stderr:
            raise PermissionError(result.stderr)
        code = 128 + (result.signal or 0) if result.exit_code is None else result.exit_code
        return ExecResult(code == 0, code, result.stdout, result.stderr + result.violations_text)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        line = 'if [ -d "$1" ]; then exit 21; fi; mkdir -p -- "$(dirname -- "$1")" && cat > "$1"'
        await self._done(["sh", "-c", line, "sh", file], file, contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...
    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...
    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        line = 'if [ -d "$1" ]; then exit 21; elif [ ! -e "$1" ]; then exit 2; fi; cat -- "$1"'
        data = await self._done(["sh", "-c", line, "sh", file], file)
        if len(data) > SandboxEnvironmentLimits.MAX_READ_FILE_SIZE:
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        return data.decode() if text else data

    async def _done(self, words: list[str], file: str, input: str | bytes = b"") -> bytes:
        """By a command in the pen, so that a file is what a command there would see."""
        result = await self._run(words, input)
        if known := {2: FileNotFoundError, 21: IsADirectoryError}.get(result.exit_code or 0):
            raise known(result.exit_code, os.strerror(result.exit_code or 0), file)
        if result.exit_code:
            raise PermissionError(result.stderr)
        return result.stdout_bytes

    async def _run(
        self,
        words: list[str],
        input: str | bytes | None,
        timeout: float | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
    ) -> pinfold.Result:
        data = input.encode() if isinstance(input, str) else input
        where = os.path.join(self.directory.name, cwd or "")
        given = {**os.environ, **env} if env else None
        try:
            result = await self.session.run(words, stdin=data, timeout=timeout, cwd=where, environment=given)
        except pinfold.PinfoldError as error:
            raise SandboxUnavailableError(str(error)) from error  # ours, never the command's
        if result.refusal:
            raise PermissionError(result.refusal)
        if result.timed_out:
            raise TimeoutError
        return result


if __name__ == "__main__":
    # With a usage of its own, the stand-in for a model counts no tokens: for that it would fetch a table.
    outputs = [
        ModelOutput.for_tool_call("mockllm", "bash", {"command": "echo pen=$PINFOLD_PEN; touch /opt/x"}),
        ModelOutput.for_tool_call("mockllm", "submit", {"answer": "done"}),
    ]
    for output in outputs:
        output.usage = ModelUsage()
    task = Task([Sample("go")], solver=basic_agent(tools=[bash(timeout=30)]), sandbox="pinfold")
    (log,) = inspect_ai.eval(
        task,
        get_model("mockllm/model", custom_outputs=outputs),
        log_dir=(sys.argv[1:] or ["logs"])[0],
        display="none",
    )
    assert log.status == "success" and log.samples, log.error
    print(
        log.status, *(message.text for message in log.samples[0].messages if message.role == "tool"), sep="\n"
    )
