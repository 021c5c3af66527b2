"""The sandbox that this process may be in already, by the variables that others set, and what turns it off.

These are claims, and some say only that an agent is around. So they are asked where something failed that
fails in a sandbox, and decide nothing.

Facts: the sandbox of Claude Code sets SANDBOX_RUNTIME (srt, 2.1.197). Codex sets CODEX_SANDBOX on macOS, and
CODEX_SANDBOX_NETWORK_DISABLED where commands have no network (0.169). Gemini CLI sets SANDBOX, Cursor
CURSOR_SANDBOX, Flatpak FLATPAK_ID; docker makes `/.dockerenv`, podman `/run/.containerenv`.
"""

import os
from collections.abc import Mapping

BY_VARIABLE = (
    ("PINFOLD_PEN", "Pinfold's sandbox", "run the command itself, without pinfold"),
    (
        "SANDBOX_RUNTIME",
        "Claude Code's sandbox",
        "to turn it off, set `sandbox.enabled` to false in ~/.claude/settings.json, or type /sandbox",
    ),
    ("CODEX_SANDBOX", "Codex's sandbox", "to turn it off, start it with `codex -s danger-full-access`"),
    (
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "Codex's sandbox",
        "to turn it off, start it with `codex -s danger-full-access`",
    ),
    ("SANDBOX", "Gemini CLI's sandbox", "to turn it off, start it with `GEMINI_SANDBOX=false gemini`"),
    (
        "CURSOR_SANDBOX",
        "Cursor's sandbox",
        'to turn it off, set `"type": "insecure_none"` in ~/.cursor/sandbox.json',
    ),
    ("FLATPAK_ID", "a Flatpak", "start the program outside of it"),
)
BY_FILE = (
    ("/.dockerenv", "docker", ("seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined")),
    ("/run/.containerenv", "podman", ("seccomp=unconfined", "unmask=ALL")),
)


def outer_sandbox(environ: Mapping[str, str]) -> str:
    """Where this process is, and what would turn that off, as a clause; empty if nothing tells."""
    for name, called, switch in BY_VARIABLE:
        if environ.get(name):
            return f"this is inside {called}: {switch}"
    for path, program, given in BY_FILE:
        if os.path.exists(path):
            options = " ".join(f"--security-opt {each}" for each in given)
            return (
                f"this is inside a container: to allow sandboxes there, start it with {program} run {options}"
            )
    return ""


def with_outer_sandbox(message: str, environ: Mapping[str, str]) -> str:
    """The message, with that at its end."""
    around = outer_sandbox(environ)
    return f"{message}; {around}" if around else message
