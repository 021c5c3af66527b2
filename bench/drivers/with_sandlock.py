"""Runs commands with sandlock's own library: one that is given, or those that come as lines of JSON.

Usage: with_sandlock.py WORK TMP [CMD ARG...], with the Python that sandlock is installed for.
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from sandlock import Sandbox  # type: ignore[import-not-found]

SHOWN = 4000
WORK, TMP, *COMMAND = sys.argv[1:]


def sandbox() -> Any:
    return Sandbox(fs_readable=["/"], fs_writable=[WORK, TMP, "/tmp", "/dev"], cwd=WORK)


def answer(result: Any) -> list[object]:
    stderr = result.stderr[-SHOWN:].decode(errors="replace") or str(result.error or "")
    return [
        0 if result.success else result.exit_code or 1,
        result.stdout[-SHOWN:].decode(errors="replace"),
        stderr,
    ]


def main() -> int:
    if COMMAND:
        return int(sandbox().run(COMMAND).exit_code)
    kept = [sandbox()]
    with ThreadPoolExecutor(64) as threads:
        for line in sys.stdin:
            count, argv, _ = json.loads(line)
            kept += [sandbox() for _ in range(count - len(kept))]
            if count == 1:
                results = [kept[0].run(argv)]
            else:
                results = list(threads.map(lambda box: box.run(argv), kept[:count]))  # noqa: B023
            worst = max(results, key=lambda result: not result.success)
            print(json.dumps(answer(worst)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
