"""What would mend a layer that this machine lacks: one command where there is one. Pure.

Facts about who refuses namespaces:
- Ubuntu since 23.10: AppArmor takes every capability in a namespace that an unconfined program made. A
  profile of the program's own with `userns,` in it gives them back; the sysctl switches the rule off for all.
- `user.max_user_namespaces = 0` and, on older Debian, `kernel.unprivileged_userns_clone = 0` are switches.
  The first one refuses with ENOSPC, and then no option of a container's helps.
- Docker and podman refuse unshare by seccomp, mounts by AppArmor, and a fresh /proc by masking the old one.
"""

from errno import ENOSPC, EOPNOTSUPP

from pinfold.model.machine import Machine

SYSCTL = "sudo sysctl {}"
DOCKER = (
    "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
    " --security-opt systempaths=unconfined ..."
)
PODMAN = "podman run --security-opt seccomp=unconfined --security-opt unmask=ALL ..."
OUTER = "run it outside of the sandbox or container that refuses it"
APPARMOR_PROFILE = (
    "printf 'abi <abi/4.0>,\\ninclude <tunables/global>\\nprofile pinfold {python} flags=(unconfined) {{\\n"
    "  userns,\\n}}\\n' | sudo tee /etc/apparmor.d/pinfold && sudo apparmor_parser -r /etc/apparmor.d/pinfold"
)
BOOT_WITH_LANDLOCK = (
    'sudo sed -i "s/^GRUB_CMDLINE_LINUX=\\"/&lsm=landlock,$(cat /sys/kernel/security/lsm) /"'
    " /etc/default/grub && sudo update-grub && sudo reboot"
)
BOOT_WITH_CGROUP_2 = "boot with systemd.unified_cgroup_hierarchy=1 on the kernel's command line"
DELEGATE = "systemd-run --user --scope -p Delegate=yes $SHELL"


def remedy(machine: Machine, layer: str) -> str:
    """What to do about a layer, by its name in `Machine`; empty if nothing is known to help."""
    if layer.endswith("_namespace"):
        return _namespaces(machine)
    if layer == "fresh_proc":
        return _container(machine) or OUTER
    if layer == "landlock":
        known = not machine.landlock and machine.landlock_errno == EOPNOTSUPP
        return BOOT_WITH_LANDLOCK if known else _container(machine) or "boot Linux 5.19 or newer"
    if layer == "cgroup":
        # In the hybrid layout the controllers are version 1's.
        hybrid = not machine.cgroup_path or "/unified" in machine.cgroup_path
        return BOOT_WITH_CGROUP_2 if hybrid else DELEGATE
    if layer == "yama":
        return "take kernel.yama.ptrace_scope=3 out of /etc/sysctl.d, then sudo reboot"
    if layer == "wait_killable":
        return "boot Linux 5.19 or newer"
    return _container(machine) or OUTER


def apparmor_profile(machine: Machine, python: str) -> str:
    """What opens namespaces to this Python alone, where AppArmor closes them to everybody."""
    closed = machine.apparmor_restricts_user_namespaces and not machine.container and not machine.superuser
    return APPARMOR_PROFILE.format(python=python) if closed else ""


def _namespaces(machine: Machine) -> str:
    count = SYSCTL.format("user.max_user_namespaces=15000")
    outer = _container(machine)
    if machine.most_user_namespaces == 0 and (not outer or machine.user_namespace.errno == ENOSPC):
        return f"{count}  # on the machine that runs the container" if outer else count
    if outer:
        return outer
    if not machine.superuser and machine.user_namespaces_are_roots:
        return SYSCTL.format("kernel.unprivileged_userns_clone=1")
    if machine.apparmor_restricts_user_namespaces:
        return SYSCTL.format("kernel.apparmor_restrict_unprivileged_userns=0")
    return OUTER


def _container(machine: Machine) -> str:
    return {"": "", "podman": PODMAN}.get(machine.container, DOCKER)
