"""Writes `sandbox.debug_output_dir`: a line for each run, and a file with everything known about it.

`log.jsonl` has one line each: what, where, enforced or not, how long. `run-ID.json` has the rest: the
effective policy, the policy as converted for executors, the plan of the pen, how the run ended. The
directory is hidden from commands (`session.judge`), so commands can neither read nor change any of this.
"""

import os
from collections.abc import Mapping

from msgspec import json

from pinfold.model.errors import PinfoldError


class DebugOutput:
    def __init__(self, directory: str) -> None:
        self.directory = directory
        try:
            os.makedirs(directory, mode=0o700, exist_ok=True)
        except OSError as error:
            raise PinfoldError(
                f"the debug directory {directory} cannot be created: {error.strerror}; "
                "name another in `sandbox.debug_output_dir`"
            ) from None

    def log(self, line: Mapping[str, object]) -> None:
        """One more line."""
        self._write("log.jsonl", json.encode(line, enc_hook=str) + b"\n", os.O_APPEND)

    def run(self, number: int, told: Mapping[str, object]) -> None:
        """Everything about one run."""
        text = json.format(json.encode(told, enc_hook=str), indent=2) + b"\n"
        self._write(f"run-{number}.json", text, os.O_TRUNC)

    def _write(self, name: str, data: bytes, how: int) -> None:
        path = os.path.join(self.directory, name)
        try:
            flags = os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | how
            descriptor = os.open(path, flags, 0o600)
            try:
                while data:
                    data = data[os.write(descriptor, data) :]
            finally:
                os.close(descriptor)
        except OSError as error:
            raise PinfoldError(f"debug output cannot be written to {path}: {error.strerror}") from None
