"""The profile: each rule by example, without a kernel, and the whole of it as golden files.

`PINFOLD_GOLDEN=write pytest tests/sandbox/seccomp` writes the golden files anew; look at the difference.
"""

import os
from itertools import product
from pathlib import Path

import pytest

from pinfold.kernel.syscall import ARCHITECTURES, NUMBERS
from pinfold.sandbox.seccomp.emulate import call, dump
from pinfold.sandbox.seccomp.profile import ReadNotices, UnixSockets, WardenMode, profile, rules

GOLDEN = Path(__file__).parent / "golden"
VARIANTS = list(product(ARCHITECTURES, WardenMode, UnixSockets))
HIGH = 1 << 32
"""A bit in the upper half of a register, which the kernel drops from an int."""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(
    ("warden", "unix"), [(WardenMode.ABSENT, UnixSockets.PAIRS), (WardenMode.PRESENT, UnixSockets.STREAMS)]
)
def test_golden(architecture: str, warden: WardenMode, unix: UnixSockets) -> None:
    path = GOLDEN / f"{architecture}-{warden.value}-{unix.value}.txt"
    text = dump(profile(architecture, warden, unix))
    if os.environ.get("PINFOLD_GOLDEN") == "write":
        path.write_text(text)
    assert path.read_text() == text


# Whether or not there is a warden.
ALWAYS = [
    # ordinary work
    ("read", (), "allow"),
    ("execve", (), "allow"),
    ("clone", (0x11,), "allow"),
    ("clone", (0x3D0F00,), "allow"),  # a thread
    ("clone", (0x4111,), "allow"),  # vfork
    ("clone", (0x80,), "allow"),  # an exit signal, not CLONE_NEWTIME
    ("unshare", (0x400,), "allow"),  # CLONE_FILES
    ("ptrace", (), "allow"),
    ("process_vm_readv", (), "allow"),
    ("seccomp", (), "allow"),
    ("landlock_restrict_self", (), "allow"),
    # namespaces
    ("clone", (0x10000011,), "EPERM"),
    ("clone", (0x20000011,), "EPERM"),
    ("clone", (HIGH | 0x10000011,), "EPERM"),
    ("clone", (0x8011,), "EPERM"),  # a child of the spawner's
    ("unshare", (0x10000000,), "EPERM"),
    ("unshare", (0x80,), "EPERM"),
    ("setns", (), "EPERM"),
    ("clone3", (), "ENOSYS"),
    # mounts
    *[(name, (), "EPERM") for name in ("mount", "umount2", "pivot_root", "chroot", "mount_setattr")],
    *[(name, (), "EPERM") for name in ("open_tree", "open_tree_attr", "move_mount", "fsopen", "fsmount")],
    # ways around, ways into the kernel
    *[(name, (), "ENOSYS") for name in ("io_uring_setup", "io_uring_enter", "io_uring_register")],
    *[(name, (), "ENOSYS") for name in ("keyctl", "add_key", "request_key")],
    *[(name, (), "EPERM") for name in ("bpf", "perf_event_open", "userfaultfd", "open_by_handle_at")],
    *[(name, (), "EPERM") for name in ("kexec_load", "finit_module", "swapon", "reboot", "acct", "quotactl")],
    *[(name, (), "EPERM") for name in ("settimeofday", "clock_settime", "sethostname", "syslog")],
    # ioctl, by the low 32 bits
    ("ioctl", (0, 0x5413), "allow"),  # TIOCGWINSZ
    ("ioctl", (0, 0x5412), "EPERM"),
    ("ioctl", (0, HIGH | 0x5412), "EPERM"),
    ("ioctl", (0, 0x541C), "EPERM"),
    ("ioctl", (0, 0x5000940E), "EPERM"),  # BTRFS_IOC_SUBVOL_CREATE
    ("ioctl", (0, 0x50009418), "EPERM"),
    ("ioctl", (0, 0x40186F04), "EPERM"),  # OCFS2_IOC_REFLINK
    *[("ioctl", (0, wanted), "EPERM") for wanted in (0x800C6613, 0xC0506617, 0xC0406618, 0xC0406619)],
    ("ioctl", (0, HIGH | 0xC0506617), "EPERM"),  # FS_IOC_ADD_ENCRYPTION_KEY
    ("ioctl", (0, 0x80086601), "allow"),  # FS_IOC_GETFLAGS
    # what the machine and the user have for all programs
    ("mq_open", (), "ENOSYS"),
    ("memfd_secret", (), "ENOSYS"),
    ("mmap", (0, 0, 0, 0x22), "allow"),
    ("mmap", (0, 0, 0, 0x40022), "ENOMEM"),
    ("mmap", (0, 0, 0, HIGH | 0x54040022), "ENOMEM"),
    ("memfd_create", (0, 3), "allow"),
    ("memfd_create", (0, 5), "ENOMEM"),
    ("shmget", (0, 0, 0o1600), "allow"),
    ("shmget", (0, 0, 0o5600), "ENOMEM"),
    # sockets
    ("socket", (2, 1, 0), "allow"),
    ("socket", (2, 0x80002, 17), "allow"),
    ("socket", (10, 0x801, 6), "allow"),
    ("socket", (2, 2, 1), "allow"),  # ping
    ("socket", (10, 2, 58), "allow"),
    ("socket", (2, 3, 1), "EPERM"),  # SOCK_RAW
    ("socket", (2, 10, 0), "EPERM"),  # SOCK_PACKET
    ("socket", (2, 1, 262), "EPROTONOSUPPORT"),  # Multipath TCP
    ("socket", (2, 1, 132), "EPROTONOSUPPORT"),  # SCTP
    ("socket", (16, 3, 0), "allow"),  # NETLINK_ROUTE
    ("socket", (16, 3, 9), "EPROTONOSUPPORT"),  # NETLINK_AUDIT
    ("socket", (16, 3, 12), "EPROTONOSUPPORT"),  # NETLINK_NETFILTER
    *[("socket", (family, 1, 0), "EAFNOSUPPORT") for family in (0, 17, 38, 40, 31, 42, 44)],
    ("socket", (HIGH | 40, 1, 0), "EAFNOSUPPORT"),
    ("socketpair", (1, 1, 0), "allow"),
    ("socketpair", (1, 0x80005, 0), "allow"),
    ("socketpair", (1, 2, 0), "EPROTONOSUPPORT"),
    ("socketpair", (1, 3, 0), "EPROTONOSUPPORT"),
    ("socketpair", (40, 1, 0), "EAFNOSUPPORT"),
    ("socket", (1, 2, 0), "EPROTONOSUPPORT"),
    ("socket", (1, 0x80802, 0), "EPROTONOSUPPORT"),
    ("socket", (1, 3, 0), "EPROTONOSUPPORT"),
    ("sendto", (3, 0, 0, 0x4000), "allow"),
    ("sendto", (3, 0, 0, 0x20000000), "EOPNOTSUPP"),
    ("sendmsg", (3, 0, 0x20000000), "EOPNOTSUPP"),
    ("sendmmsg", (3, 0, 0, 0x20004000), "EOPNOTSUPP"),
    # the tag of a command
    ("prlimit64", (0, 15, 0, 0x1000), "allow"),
    ("prlimit64", (0, 15, 0x1000), "EPERM"),
    ("prlimit64", (0, 15, HIGH), "EPERM"),
    ("prlimit64", (0, HIGH | 15, 0x1000), "EPERM"),
    ("prlimit64", (0, 7, 0x1000), "allow"),
    ("prlimit64", (1, 7, 0x1000), "EPERM"),
    # pid 1's pace
    *[(f"sched_set{what}", (0,), "allow") for what in ("param", "scheduler", "affinity", "attr")],
    *[(f"sched_set{what}", (HIGH | 1,), "EPERM") for what in ("param", "scheduler", "affinity", "attr")],
    *[("setpriority", given, "allow") for given in ((0, 0), (0, 7), (1, 0))],
    *[("setpriority", given, "EPERM") for given in ((0, 1), (HIGH, HIGH | 1), (2, 0))],
    *[("ioprio_set", given, "allow") for given in ((1, 0), (1, 7), (2, 0))],
    *[("ioprio_set", given, "EPERM") for given in ((1, 1), (3, 0))],
    ("prlimit64", (1, 7, HIGH), "EPERM"),
    ("prlimit64", (1, 7, 0), "allow"),
    ("prlimit64", (0, 4, 0x1000), "0"),
    ("prlimit64", (0, 4, HIGH), "0"),
    ("prlimit64", (0, HIGH | 4, 0x1000), "0"),
    ("prlimit64", (0, 4, 0x1000, 0x1000), "EPERM"),
    ("prlimit64", (0, 4, 0x1000, HIGH), "EPERM"),
    ("prlimit64", (0, 4, 0, 0x1000), "allow"),
    ("prlimit64", (1, 4, 0x1000), "EPERM"),
    ("setrlimit", (4, 0x1000), "0"),
    ("setrlimit", (HIGH | 4, 0x1000), "0"),
    ("setrlimit", (15, 0), "EPERM"),
    ("setrlimit", (7, 0), "allow"),
    # leases
    ("fcntl", (0, 1024), "EINVAL"),
    ("fcntl", (0, HIGH | 1024), "EINVAL"),
    ("fcntl", (0, 1040), "EINVAL"),
    ("fcntl", (0, 1030), "allow"),
    # personality
    ("personality", (0xFFFFFFFF,), "allow"),
    ("personality", (0x40000,), "allow"),
    ("personality", (0x400000,), "EPERM"),  # READ_IMPLIES_EXEC
]

# What the warden answers, and what is allowed without one.
NAMING = ("mkdirat", "mknodat", "linkat", "symlinkat", "renameat", "renameat2", "bind", "connect")
OLD_NAMING = ("creat", "mkdir", "mknod", "link", "symlink", "rename")
NOTIFIED = [
    ("openat", (0, 0, 0), "allow"),
    ("openat", (0, 0, 0o2400000), "allow"),
    *[("openat", (0, 0, flags), "notify") for flags in (0o100, 0o1000, 0o1001, 0o20200002, 0o101)],
    ("openat", (0, 0, HIGH | 0o101), "notify"),
    ("open", (0, 0), "allow"),
    ("open", (0, 0o101), "notify"),
    ("openat2", (), "ENOSYS"),
    *[(name, (), "notify") for name in (*NAMING, *OLD_NAMING)],
    ("umask", (0o022,), "notify"),
    ("umask", (0o777,), "notify"),
]


@pytest.mark.parametrize(("architecture", "warden", "unix"), VARIANTS)
def test_calls_that_no_mode_changes(architecture: str, warden: WardenMode, unix: UnixSockets) -> None:
    program = profile(architecture, warden, unix)
    for name, arguments, expected in ALWAYS:
        assert call(program, architecture, name, *arguments) == expected, (name, arguments)


@pytest.mark.parametrize(("architecture", "warden", "unix"), VARIANTS)
def test_calls_that_the_warden_answers(architecture: str, warden: WardenMode, unix: UnixSockets) -> None:
    program = profile(architecture, warden, unix)
    for name, arguments, expected in NOTIFIED:
        if name in NUMBERS[architecture]:
            wanted = expected if warden is not WardenMode.ABSENT else "allow"
            assert call(program, architecture, name, *arguments) == wanted, (name, arguments)


@pytest.mark.parametrize(("architecture", "warden", "unix"), VARIANTS)
def test_calls_that_an_asking_warden_answers(
    architecture: str, warden: WardenMode, unix: UnixSockets
) -> None:
    program = profile(architecture, warden, unix)
    for flags in (1, 2, 3, 0o2001, HIGH | 1):
        wanted = "notify" if warden is WardenMode.ASKING else "allow"
        assert call(program, architecture, "openat", 0, 0, flags) == wanted, flags
        if "open" in NUMBERS[architecture]:
            assert call(program, architecture, "open", 0, flags) == wanted, flags
    for name in ("unlink", "unlinkat", "rmdir", "truncate", "chmod", "fchmodat", "fchmodat2"):
        if name in NUMBERS[architecture]:
            wanted = "notify" if warden is WardenMode.ASKING else "allow"
            assert call(program, architecture, name) == wanted, name
    for name, at in (("access", 1), ("faccessat", 2), ("faccessat2", 2)):
        if name in NUMBERS[architecture]:
            for mode, is_told in (
                (0, False),
                (1, False),
                (4, False),
                (5, False),
                (2, True),
                (6, True),
                (7, True),
            ):
                wanted = "notify" if is_told and warden is WardenMode.ASKING else "allow"
                assert call(program, architecture, name, *[0] * at, mode) == wanted, (name, mode)
    # A denial outranks a notification.
    for name in ("fchmodat", "fchmodat2"):
        assert call(program, architecture, name, 0, 0, 0o4755) == "EPERM", name
    for name in ("ftruncate", "fchmod", "utimensat"):
        assert call(program, architecture, name) == "allow", name


@pytest.mark.parametrize(("architecture", "warden", "unix"), VARIANTS)
def test_reads_are_noted_where_a_warden_listens(
    architecture: str, warden: WardenMode, unix: UnixSockets
) -> None:
    noting = profile(architecture, warden, unix, ReadNotices.NOTED)
    wanted = "allow" if warden is WardenMode.ABSENT else "notify"
    for flags in (0, 0o2000000, 0o200000, 1, 2, 0o1000):
        assert call(noting, architecture, "openat", 0, 0, flags) == wanted
        if "open" in NUMBERS[architecture]:
            assert call(noting, architecture, "open", 0, flags) == wanted
    # An open that only names a file reads nothing, and nothing else changes.
    assert call(noting, architecture, "openat", 0, 0, 0o10000000) == "allow"
    for name, arguments, expected in (*ALWAYS, *(row for row in NOTIFIED if row[2] != "allow")):
        if name in NUMBERS[architecture]:
            usual = call(profile(architecture, warden, unix), architecture, name, *arguments)
            assert call(noting, architecture, name, *arguments) == usual, (name, expected)
    assert call(noting, architecture, "unlinkat") == wanted


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("warden", WardenMode)
def test_unix_sockets_need_a_warden(architecture: str, warden: WardenMode) -> None:
    pairs = profile(architecture, warden, UnixSockets.PAIRS)
    streams = profile(architecture, warden, UnixSockets.STREAMS)
    assert call(pairs, architecture, "socket", 1, 1, 0) == "EAFNOSUPPORT"
    assert call(streams, architecture, "socket", 1, 1, 0) == "allow"
    assert call(streams, architecture, "socket", 1, 0x80005, 0) == "allow"


def test_the_strictest_mode_is_the_default() -> None:
    first = next(iter(WardenMode)), next(iter(UnixSockets)), next(iter(ReadNotices))
    assert profile("x86_64") == profile("x86_64", *first)


def test_every_rule_names_calls() -> None:
    assert all(rule.calls for rule in rules(WardenMode.PRESENT, UnixSockets.PAIRS))


ORDINARY = {
    *((family, 1, protocol) for family in (2, 10) for protocol in (0, 6)),
    *((family, 2, protocol) for family in (2, 10) for protocol in (0, 17)),
    *((2, 2, 1), (10, 2, 58), (16, 2, 0), (16, 3, 0)),
}
"""Families, types and protocols that programs use."""


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["socket", "socketpair"])
def test_no_socket_loads_a_module(architecture: str, name: str) -> None:
    """Every unusual socket is denied before the kernel looks for a module."""
    program = profile(architecture, WardenMode.PRESENT, UnixSockets.STREAMS)
    protocols = (*range(20), 33, 41, 47, 58, 132, 136, 255, 256, 262, -1)
    for family in (*range(48), -1):
        for kind in range(16):
            for protocol in protocols:
                given = family, kind, protocol
                said = call(program, architecture, name, *given)
                assert said == call(program, architecture, name, family, kind | 0x80800, protocol)
                # For AF_UNIX the kernel itself denies other protocols, and looks for no module.
                is_open = given in ORDINARY or (family == 1 and kind in (1, 5))
                assert (said == "allow") is is_open, given


BY_NAME = [
    *(("ioctl", (0, wanted), "EPERM") for wanted in (0x8940, 0x8941, 0x89A0, 0x89A1, 0x8982, 0x8983)),
    *(("setsockopt", (0, 6, option), "ENOPROTOOPT") for option in (14, 31, 32, 38)),
    *(("setsockopt", (0, 6, option), "allow") for option in (1, 4, 5, 13, 30)),
    *(("setsockopt", (0, 1, option), "allow") for option in (14, 31)),
]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize(("name", "arguments", "expected"), BY_NAME)
def test_no_option_loads_a_module(
    architecture: str, name: str, arguments: tuple[int, ...], expected: str
) -> None:
    program = profile(architecture, WardenMode.PRESENT, UnixSockets.STREAMS)
    assert call(program, architecture, name, *arguments) == expected
