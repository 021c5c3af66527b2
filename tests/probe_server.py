"""A Python that has imported Pinfold, and forks a child for each probe.

Starting Python and importing takes most of a short probe's time, so `tests/probe_runner.py` has one of these
for each user. It starts no thread and opens nothing, so a child begins as a new interpreter would: with its
own directory, variables and output.

INVARIANT: no module of probes is imported before the fork: they read HOME and the directory when imported.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import socket
import sys
import threading
import traceback

import pinfold

PROGRAMS = ("pinfold.__main__", "pinfold.network.__main__", "pinfold.integrations.hooks.start")
"""Modules that run when they are imported."""
IMPORTED = ("pytest", "unittest.mock", "tests.patience", "tests.probe_module", "tests.processes")
"""What many probes import besides Pinfold. `pytest` alone takes longer than a short probe."""


def main(connection: socket.socket) -> None:
    """Answers each request with the child's pid, then with its exit status. In the child, runs the probe."""
    for module in pkgutil.walk_packages(pinfold.__path__, "pinfold."):
        if module.name not in PROGRAMS:
            importlib.import_module(module.name)
    for name in IMPORTED:
        importlib.import_module(name)
    gc.freeze()
    while True:
        words, outputs, _, _ = socket.recv_fds(connection, 65536, 1)
        if not words:
            return
        pid = os.fork()
        if not pid:
            break
        for output in outputs:
            os.close(output)
        connection.send(b"%d" % pid)
        connection.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    connection.close()
    for number in (1, 2):
        os.dup2(outputs[0], number)
    os.close(outputs[0])
    module, probe, directory, variables = json.loads(words)
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(variables)
    sys.path[0] = directory
    sys.argv[1:] = [probe]
    code: object = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code or 0
    except BaseException:  # noqa: BLE001  whatever it is, the interpreter would print it
        traceback.print_exc()
        code = 1
    # What an interpreter does at its end, but for taking apart a thousand modules.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    if not isinstance(code, int):
        print(code, file=sys.stderr)
        code = 1
    sys.stdout.flush()
    os._exit(code)
