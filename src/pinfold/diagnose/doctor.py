"""What this machine enforces, and what pinfold needs besides: gathered for a person to look at."""

import os
import sys
from collections.abc import Iterator, Mapping
from shlex import quote
from tempfile import TemporaryDirectory
from time import monotonic

from msgspec import Struct
from msgspec.structs import replace

from pinfold.isolated import program_outside
from pinfold.model.errors import ConfinementError, PinfoldError
from pinfold.model.home import home_of
from pinfold.model.machine import Machine
from pinfold.model.outer_sandbox import outer_sandbox
from pinfold.model.policy import PolicyType, SandboxPolicy
from pinfold.model.settings import Settings
from pinfold.policy.paths import contains
from pinfold.sandbox.backend import NOTHING, Enforcement, EnforcementLevel, SandboxLayer, StartRequest
from pinfold.sandbox.compat import apparmor_profile, judge
from pinfold.sandbox.doctor_report import LayerReport, LayerState, layer_reports
from pinfold.sandbox.probe import require_platform
from pinfold.session.session import Session
from pinfold.settings import policy_of
from pinfold.shell.shfmt import find_binary
from pinfold.state.directory import state_directory

__all__ = ["Diagnosis", "Enforcement", "LayerReport", "LayerState", "diagnose", "enforcement_of"]

PATIENCE = 10.0
REPORT = "report it, with the output of: pinfold doctor --json"
ELSEWHERE = 'export XDG_STATE_HOME="$(mktemp -d)"'
WHO_HAS_MOST = "ps -u $(id -u) -o nlwp,pid,args --sort=-nlwp | head"
FENCES = (PolicyType.WORKSPACE_READWRITE, PolicyType.WORKSPACE_READONLY)
TOLD_BY_LAYERS = (SandboxLayer.NAMESPACES, SandboxLayer.PROC, SandboxLayer.LANDLOCK, SandboxLayer.SECCOMP)
"""Gaps that have a row among the layers, with the very fact behind them."""


class Diagnosis(Struct, frozen=True):
    machine: Machine
    layer_reports: tuple[LayerReport, ...]
    enforcement: Enforcement
    """Of the policy in force; of the shipped one if settings cannot be read, or ask for no sandbox."""
    narrower: str
    """A command that opens namespaces to this Python alone; empty where that is not the trouble."""

    @property
    def is_well(self) -> bool:
        """Whether commands would run as the policy says, with nothing missing."""
        ready = all(
            each.state in (LayerState.ENFORCED, LayerState.READY)
            for each in self.layer_reports
            if each.needed
        )
        return ready and self.enforcement.level is EnforcementLevel.FULL


def diagnose(policy: SandboxPolicy | None, trouble: str, environ: Mapping[str, str]) -> Diagnosis:
    """Everything that can be missing, tried where it can be tried.

    `policy` is the one in force, and None where the settings cannot be read, for the reason in `trouble`.
    Preconditions: this process has one thread.
    """
    machine = machine_of_this()
    enforcement = judge(machine, _with_fence(policy))
    gaps = (
        LayerReport(gap.layer.replace("_", " "), LayerState.NOT, gap.why, gap.remedy)
        for gap in enforcement.missing
        if gap.layer not in TOLD_BY_LAYERS
    )
    pen = (*_processes(), _pen(_with_fence(policy))) if enforcement.level is not EnforcementLevel.NONE else ()
    around = (*pen, *_tools(), _settings(trouble), _state(state_directory(environ), home_of(environ)))
    found = (*layer_reports(machine), *gaps, *around, *_outer(enforcement, environ))
    return Diagnosis(machine, found, enforcement, apparmor_profile(machine, os.path.realpath(sys.executable)))


def enforcement_of(session: Session) -> Enforcement:
    """What this machine enforces of the session's policy.

    Preconditions: this process has one thread.
    """
    if not session.settings.sandbox.enabled or session.policy.type not in FENCES:
        return NOTHING
    return judge(machine_of_this(), session.policy)


def machine_of_this() -> Machine:
    require_platform()
    from pinfold.sandbox.linux.host.backend import try_machine

    return try_machine()


def _with_fence(policy: SandboxPolicy | None) -> SandboxPolicy:
    if policy is None:
        return policy_of(Settings(), (), "/")
    return policy if policy.type in FENCES else replace(policy, type=FENCES[0])


def _processes() -> Iterator[LayerReport]:
    """If the user's programs leave none, no pen can be built, even with every layer available."""
    from pinfold.sandbox.linux.limits import process_count

    if (found := process_count()) is None:
        return
    held, most = found
    told = f"you have {held:,}; from {most:,} on, commands get none"
    state, fix = (LayerState.READY, "") if held < most else (LayerState.NOT, WHO_HAS_MOST)
    yield LayerReport("processes", state, told, fix)


def _pen(policy: SandboxPolicy) -> LayerReport:
    """Facts are one thing, a pen that was built of them another."""
    from pinfold.sandbox.linux.host.backend import LinuxBackend

    backend = LinuxBackend()
    began = monotonic()
    try:
        with TemporaryDirectory(prefix="pinfold-doctor-") as work:
            result = backend.open_session([work]).run(StartRequest(("true",), policy, work, timeout=PATIENCE))
            backend.close()
    except ConfinementError as error:
        return LayerReport("a sandbox", LayerState.NOT, str(error), REPORT)
    except OSError as error:
        return LayerReport(
            "a sandbox", LayerState.NOT, f"no place to try one: {error}", "export TMPDIR=$HOME"
        )
    finally:
        backend.close()
    if result.exit_code != 0:
        return LayerReport("a sandbox", LayerState.NOT, "one was built, and `true` failed in it", REPORT)
    return LayerReport(
        "a sandbox", LayerState.ENFORCED, f"built, used and gone in {monotonic() - began:.2f} s"
    )


def _tools() -> Iterator[LayerReport]:
    try:
        yield LayerReport("shell parser", LayerState.READY, find_binary())
    except PinfoldError as error:
        fix = f"{sys.executable} -I -m pip install --force-reinstall shfmt-py"
        yield LayerReport("shell parser", LayerState.NOT, str(error), fix)
    if git := program_outside("git", os.environ):
        yield LayerReport("git", LayerState.READY, git)
    else:
        why = "not found: what git ignores is not known"
        yield LayerReport("git", LayerState.NOT, why, "sudo apt-get install git", needed=False)


def _settings(trouble: str) -> LayerReport:
    if trouble:
        return LayerReport("settings", LayerState.NOT, trouble, "pinfold settings validate")
    return LayerReport("settings", LayerState.READY, "every layer can be read")


def _outer(enforcement: Enforcement, environ: Mapping[str, str]) -> Iterator[LayerReport]:
    """Another sandbox around this process is told of where something is missing: it may be the reason."""
    if enforcement.missing and (told := outer_sandbox(environ)):
        yield LayerReport("another sandbox", LayerState.PARTLY, told, needed=False)


def _state(directory: str, home: str) -> LayerReport:
    """Runs are journaled before they begin, so without this directory nothing runs.

    The remedy is given only for directories in the home: another may be the system's.
    """
    there = directory
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    if os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK):
        if _is_full(there):
            return LayerReport(
                "state directory", LayerState.NOT, f"there is no room left in {there}", ELSEWHERE
            )
        return LayerReport("state directory", LayerState.READY, directory)
    named = quote(there)
    if not os.path.isdir(there):
        fix = f"mv {named} {quote(f'{there}.old')}"
    elif os.statvfs(there).f_flag & os.ST_RDONLY:
        fix = ELSEWHERE
    elif os.stat(there).st_uid == os.getuid():
        fix = f"chmod u+rwx {named}"
    else:
        fix = f"sudo chown $(id -u) {named}" if there != home and contains(home, there) else ELSEWHERE
    return LayerReport("state directory", LayerState.NOT, f"{there} cannot be written to", fix)


def _is_full(directory: str) -> bool:
    disk = os.statvfs(directory)
    return bool(disk.f_blocks) and not (disk.f_bavail if os.geteuid() else disk.f_bfree)
