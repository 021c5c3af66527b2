"""Inspect's own checks of a sandbox provider, run on the example."""

import asyncio
import os
import sys
import traceback

from inspect_ai.util._sandbox import self_check  # type: ignore[import-untyped,unused-ignore]
from inspect_sandbox import Pinfold  # type: ignore[import-not-found]

KNOWN = {
    "test_exec_as_user": "everything runs as the user who started it",
    "test_exec_large_command": "lines of more than 10,000 characters are not judged, so they are asked about",
}
AS_ROOT = {
    "test_write_text_file_without_permissions": "root may write what others may not",
    "test_write_binary_file_without_permissions": "root may write what others may not",
}


async def tried(name: str) -> bool:
    environment = Pinfold()
    try:
        await getattr(self_check, name)(environment)
    except Exception:  # noqa: BLE001  (whatever it was, it did not hold)
        print(f"{name} failed: {traceback.format_exc(limit=-2)}")
        return False
    finally:
        await Pinfold.sample_cleanup("", None, {"default": environment}, False)
    return True


def main() -> int:
    known = {**KNOWN, **(AS_ROOT if os.geteuid() == 0 else {})}
    names = [name for name in dir(self_check) if name.startswith("test_")]
    held = [name for name in names if name not in known and asyncio.run(tried(name))]
    print(f"{len(held)} of {len(names)} held, {len(known)} are known not to")
    return 0 if len(held) + len(known) == len(names) else 1


if __name__ == "__main__":
    sys.exit(main())
