"""What a machine can enforce, as a value.

Plain tuples: the processes that probe the kernel use nothing but the standard library.
"""

from typing import NamedTuple


class Layer(NamedTuple):
    """One kernel feature that the sandbox may use."""

    works: bool
    reason: str = ""
    """Why it does not work, in the kernel's words where it gave an error."""
    errno: int = 0
    """The kernel's error, where it gave one."""


class Machine(NamedTuple):
    """What this kernel did for this user when it was probed."""

    release: str
    """The kernel's release, as `uname -r` prints it."""
    architecture: str
    superuser: bool
    landlock: int
    """The newest ABI, and 0 if a ruleset cannot be enforced."""
    landlock_reason: str
    landlock_errno: int
    no_new_privs: Layer
    seccomp: Layer
    notification: Layer
    """Whether our seccomp filter may have a listener. The kernel allows one: an outer sandbox may have it."""
    wait_killable: Layer
    """Whether a call that waits for the listener ignores signals (5.19)."""
    user_namespace: Layer
    mount_namespace: Layer
    pid_namespace: Layer
    net_namespace: Layer
    ipc_namespace: Layer
    uts_namespace: Layer
    cgroup_namespace: Layer
    fresh_proc: Layer
    """Whether a new pid namespace may mount its own /proc. Where parts of /proc are masked it may not."""
    overlay: Layer
    """overlayfs in a user namespace."""
    cgroup: Layer
    """Whether we may make cgroups (v2) with the memory and pids controllers."""
    cgroup_path: str
    """The cgroup to make them in, or else our own; empty without cgroup v2."""
    yama: int
    """kernel.yama.ptrace_scope; -1 without Yama. From 3 on no process may read another."""
    apparmor_restricts_user_namespaces: bool
    """Ubuntu's rule: AppArmor allows the namespace and denies every capability in it."""
    most_user_namespaces: int = -1
    """user.max_user_namespaces; -1 if it cannot be read."""
    user_namespaces_are_roots: bool = False
    """Debian's old switch: kernel.unprivileged_userns_clone is 0."""
    container: str = ""
    """The kind of container we run in; empty if none can be detected."""
