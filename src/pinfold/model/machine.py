"""What a machine can enforce, as a value.

Plain tuples, since the processes that ask the kernel have nothing but the standard library.
"""

from typing import NamedTuple


class Layer(NamedTuple):
    """One thing the kernel may do for us."""

    works: bool
    reason: str = ""
    """Why it does not, in the kernel's words where it spoke."""
    errno: int = 0
    """What the kernel answered, where it spoke."""


class Machine(NamedTuple):
    """What this kernel did for this user when it was asked."""

    release: str
    """The kernel's, as `uname -r` prints it."""
    architecture: str
    superuser: bool
    landlock: int
    """The newest ABI, and 0 if a ruleset cannot be enforced."""
    landlock_reason: str
    landlock_errno: int
    no_new_privs: Layer
    seccomp: Layer
    notification: Layer
    """Whether a filter of ours may have a listener. An outer sandbox that has one takes the only place."""
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
    """Whether a cgroup (v2) is ours to make others in, with memory and pids in them."""
    cgroup_path: str
    """That one, or else our own; empty without cgroup v2."""
    yama: int
    """kernel.yama.ptrace_scope; -1 without Yama. From 3 on nobody reads another process."""
    apparmor_restricts_user_namespaces: bool
    """Ubuntu's rule: the namespace is made, and every capability in it refused."""
    most_user_namespaces: int = -1
    """user.max_user_namespaces; -1 if it is not told."""
    user_namespaces_are_roots: bool = False
    """Debian's old switch: kernel.unprivileged_userns_clone is 0."""
    container: str = ""
    """Which kind of container we are in; empty if in none that shows."""
