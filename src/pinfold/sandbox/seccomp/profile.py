"""The rules for system calls in a pen: which are denied, and which the warden answers.

Each set has its reason and its errno: ENOSYS where programs can do without the call, since older kernels
answer so; EPERM where an ordinary user would get it anyway; others where callers expect them. Missing
capabilities also deny most of these. They are listed because a user namespace would open the kernel code
behind them, and that code is the attack surface.

Left open on purpose:
- ptrace, process_vm_*, pidfd_getfd, kcmp: debuggers are ordinary work. Landlock limits them to the pen's own
  domain, pid 1 is not dumpable, and since 4.8 this filter judges a call again after a tracer changed it.
- seccomp and landlock_*: a program may restrict itself further, and the warden counts its filters. An error
  outranks a notification, and the kernel denies a second listener (EBUSY).
- unlink, utimens, truncate, and chmod except one bit: Landlock and mounts judge them, and they make no names.
"""

from collections.abc import Iterator
from enum import Enum

from pinfold.kernel import namespaces
from pinfold.kernel.seccomp import RET_ALLOW, RET_USER_NOTIF
from pinfold.sandbox.seccomp.bpf import ALL_BITS, CallRule, Condition, Instruction, compile_rules, errno

# The kernel's values on both architectures, independent of the machine that compiles this.
EPERM, ENOMEM, EINVAL, ENOSYS, ENOPROTOOPT, EPROTONOSUPPORT = 1, 12, 22, 38, 92, 93
ESOCKTNOSUPPORT, EOPNOTSUPP, EAFNOSUPPORT = 94, 95, 97
O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE_ALONE = 0o1, 0o2, 0o100, 0o1000, 0o20000000
O_PATH = 0o10000000
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_PACKET = 1, 2, 3, 5, 10
SOCK_TYPE_MASK = 0xF


class WardenMode(Enum):
    """Whether a warden answers notified calls. Without one, commands cannot make names or connect sockets."""

    ABSENT = "absent"
    PRESENT = "present"
    ASKING = "asking"
    """It also hears of changes that make no name, since a person may be asked about denied ones."""


class ReadNotices(Enum):
    """Whether the warden also hears of opens that only read."""

    UNSEEN = "unseen"
    """Reads run at the kernel's speed."""
    NOTED = "noted"
    """Each read goes through the warden, which records hidden files among them and lets the kernel continue.
    So do changes that make no name: a user that wants to see reads wants to see every denial."""


class UnixSockets(Enum):
    """Which unix sockets a program may make: unless a connect is judged, it may lead to the host's
    sockets."""

    PAIRS = "pairs"
    """Connected pairs only, where neither a warden nor Landlock (ABI 9) judges a connect."""
    STREAMS = "streams"
    """Streams and seqpackets, which must connect before they send."""


# Namespaces: a new user namespace gives capabilities in it, and so opens all code that asks for one.
NAMESPACE_CALLS = ("setns",)
# The lowest byte of clone's flags is the exit signal, where CLONE_NEWTIME would be.
NEW_BY_CLONE = namespaces.NEW_NAMESPACES & ~0xFF
NEW_BY_UNSHARE = namespaces.NEW_NAMESPACES

# A child of the caller's parent: of the spawner, which reaps only its commands. An ended process that is not
# reaped counts until the session ends, and in the end no other could be started.
CLONE_PARENT = 0x8000

# Its flags lie behind a pointer. libc falls back to clone.
HIDES_CLONE_FLAGS = ("clone3",)

# The tree of mounts is part of the boundary.
MOUNTING = (
    *("mount", "umount2", "pivot_root", "chroot"),
    *(
        "open_tree",
        "open_tree_attr",
        "move_mount",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "mount_setattr",
    ),
)

# The kernel makes its requests, and no filter sees them.
IO_URING = ("io_uring_setup", "io_uring_enter", "io_uring_register")

# The machine has 65,536 requests (fs.aio-max-nr) for all users, and one command could reserve all of them.
# Databases that use some do without if the kernel has none. POSIX queues: the kernel counts the messages that
# they may hold (RLIMIT_MSGQUEUE) for the user in all namespaces, until the queue's namespace ends. And
# Landlock lets no process in a pen open a queue.
MACHINE_WIDE = ("io_setup", "mq_open")
# Memory that belongs to no process once it is unmapped, and cannot be swapped out: a kernel that runs short
# of memory kills other programs for it. Most kernels before Linux 6.5 lack the call.
SECRET_MEMORY = ("memfd_secret",)
# An administrator reserves huge pages for one program (vm.nr_hugepages), and any other can take them all.
# MAP_HUGETLB, MFD_HUGETLB and SHM_HUGETLB, each with the argument that has the flag: the errno is that of
# none being free.
HUGE_PAGES = (("mmap", 3, 0x40000), ("memfd_create", 1, 0x4), ("shmget", 2, 0o4000))

# Programs in the kernel, and its counters; a fault handler in user space stops the kernel in the middle of a
# copy.
KERNEL_PROGRAMS = ("bpf", "perf_event_open", "userfaultfd")

# Keyrings belong to the user, not to a namespace: the host's keys would be visible. As without CONFIG_KEYS.
KEYRINGS = ("add_key", "request_key", "keyctl")

# Opens a file by its inode, past every directory, mount and hidden path above it.
BY_HANDLE = ("open_by_handle_at",)

# Settings of the whole machine: other kernels, modules, swap, clocks, accounting, quotas, ports, the log.
MACHINE = (
    *("kexec_load", "kexec_file_load", "reboot"),
    *("init_module", "finit_module", "delete_module", "create_module", "get_kernel_syms", "query_module"),
    *("swapon", "swapoff", "settimeofday", "clock_settime", "acct", "quotactl", "quotactl_fd"),
    *("iopl", "ioperm", "vhangup", "sethostname", "setdomainname", "syslog", "fanotify_init"),
)

# No program has used these for decades.
OBSOLETE = ("uselib", "ustat", "sysfs", "_sysctl", "nfsservctl", "lookup_dcookie", "vserver", "modify_ldt")

# Terminals: typing into one (TIOCSTI), pasting on a console (TIOCLINUX), line disciplines (TIOCSETD), which
# are drivers that no command needs.
TERMINAL_IOCTLS = (0x5412, 0x541C, 0x5423)
# Subvolumes of btrfs and bcachefs: names made, and removed, where Landlock has no hook. _IOW(0x94, n, 4096):
# SNAP_CREATE, SUBVOL_CREATE, SNAP_DESTROY, both _V2, SNAP_DESTROY_V2.
SUBVOLUME_IOCTLS = (
    0x50009401,
    0x5000940E,
    0x5000940F,
    0x50009417,
    0x50009418,
    0x5000943F,
    0x4020BC10,
    0x4020BC11,
)
# Another file system's call that makes a name: OCFS2_IOC_REFLINK.
NAMING_IOCTLS = (0x40186F04,)
# fscrypt: FS_IOC_SET_ENCRYPTION_POLICY, _ADD_ENCRYPTION_KEY, _REMOVE_ENCRYPTION_KEY and its _ALL_USERS.
# Without its key a directory shows other names, so the warden would miss the protected ones in it. And a
# command could lock the user's own directories.
ENCRYPTION_IOCTLS = (0x800C6613, 0xC0506617, 0xC0406618, 0xC0406619)

# Bridges and VLANs, by old calls: they load a driver first, and check for capabilities only then. SIOCGIFBR,
# SIOCSIFBR, SIOCBRADDBR, SIOCBRDELBR, SIOCGIFVLAN, SIOCSIFVLAN.
DRIVER_IOCTLS = (0x8940, 0x8941, 0x89A0, 0x89A1, 0x8982, 0x8983)
CLOSED_IOCTLS = (
    *TERMINAL_IOCTLS,
    *SUBVOLUME_IOCTLS,
    *NAMING_IOCTLS,
    *ENCRYPTION_IOCTLS,
    *DRIVER_IOCTLS,
)

# A lease (F_SETLEASE, F_SETDELEG) on any file of the user's that can be read delays other processes that open
# it for 45 seconds, on the host too; a non-blocking open gets EAGAIN. The errno is that of a file system
# without leases.
LEASES = (1024, 1040)

# A program with this bit runs as its owner when anyone starts it: not in a pen, but on the host.
S_ISUID = 0o4000
MODE_OF = (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2))

# Sockets. If the kernel lacks a family, type and protocol, it loads a module of that name for any caller
# (`net-pf-2-proto-0-type-5`). So the three are listed as they go together. What is not listed is drivers and
# protocols that a build does not need, some of which (AF_VSOCK, AF_BLUETOOTH, AF_QIPCRTR) know no network
# namespace. Of netlink, ordinary programs use the part that lists addresses and routes.
FAMILIES = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
INET = (AF_INET, AF_INET6)
IP, ICMP, TCP, UDP, ICMPV6, NETLINK_ROUTE = 0, 1, 6, 17, 58, 0
# A datagram names its receiver in each send; for AF_UNIX, SOCK_RAW makes a datagram socket.
CONNECTED_TYPES = (SOCK_STREAM, SOCK_SEQPACKET)
# Family, types, protocols (None: the kernel has but one, and looks for no module). Multipath TCP is left out:
# Landlock's TCP rights do not see it, and Go and others that ask for it first fall back to TCP.
SOCKETS = (
    (AF_UNIX, CONNECTED_TYPES, None),
    (AF_INET, (SOCK_STREAM,), (IP, TCP)),
    (AF_INET, (SOCK_DGRAM,), (IP, UDP, ICMP)),
    (AF_INET6, (SOCK_STREAM,), (IP, TCP)),
    (AF_INET6, (SOCK_DGRAM,), (IP, UDP, ICMPV6)),
    (AF_NETLINK, (SOCK_DGRAM, SOCK_RAW), (NETLINK_ROUTE,)),
)
# Further options of a TCP socket: signatures (TCP_MD5SIG, _EXT, TCP_AO_ADD_KEY), which load a cipher by a
# name that the caller gives, and other protocols on top (TCP_ULP). As of a kernel built without them.
TCP_MODULES = (14, 32, 38, 31)
MSG_FASTOPEN = 0x20000000
# Flow labels, of which a machine has 4,096 for all users and network namespaces (IPV6_FLOWLABEL_MGR).
IPV6, IPV6_FLOWLABEL_MGR = 41, 32

# A filter on a socket is compiled code, which the kernel counts for the whole machine, and a command may have
# tens of thousands of sockets. Only packet captures need one, and sockets that no pen has.
SOL_SOCKET = 1
SOCKET_FILTERS = (26, 50, 51, 52)

# The mark by which a command's processes are found and killed; see sandbox/linux/init/command_tags.py.
RLIMIT_RTTIME = 15

# A plan sets this limit to 1, which keeps the machine's crash handler (core_pattern) from being started: it
# runs as root, outside, on what a crashed program was. Every other value below starts it, 0 too. Programs
# with secrets (gpg, ssh-agent) set 0 and end if they cannot. No core is written anyway, so they are told that
# it is done. Who asks for the old value in the same call would be told nothing true, and gets an error.
RLIMIT_CORE = 4
DONE = errno(0)

# Pid 1 ends commands, and the session ends with it. If a command slowed it down, pid 1 would get its turn
# only when faster processes have ended by themselves. Its uid is theirs, so the kernel would allow it. A pen
# makes no pid namespaces: 1 is always this process. Its process group is the keeper's, which has no number
# inside.
PID_ONE = 1
PACE_BY_PID = ("sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr")
# The call, the value that means one process by its pid, and the value that means all of a user's.
PACE_BY_KIND = (("setpriority", 0, 2), ("ioprio_set", 1, 3))

# The default, 32-bit names, uname 2.6 and no address randomisation (debuggers, sanitizers); -1 only asks. All
# other values turn old bugs back on, such as READ_IMPLIES_EXEC.
PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0x40000, 0x40008, 0xFFFFFFFF)

# The warden answers: opens that may make a file, or empty one, as `cp` does ...
MAKING = O_CREAT | O_TMPFILE_ALONE | O_TRUNC
# ... calls that make a name, which Landlock withholds in writable roots ...
NAMING = (
    *("creat", "mkdir", "mkdirat", "mknod", "mknodat", "link", "linkat", "symlink", "symlinkat"),
    *("rename", "renameat", "renameat2", "bind"),
)
# ... in pens that ask a person or record every denial, opens that write into existing files. Elsewhere not:
# every run of git has one, of /dev/null, and the warden's turn would be a hundredth of `git status` ...
WRITING = MAKING | O_WRONLY | O_RDWR
# ... other changes by path ...
CHANGING = ("unlink", "unlinkat", "rmdir", "truncate", "chmod", "fchmodat", "fchmodat2")
# ... changes that are only recorded: they are rare, and a person is asked about the command afterwards ...
NOTED = ("setxattr", "lsetxattr", "removexattr", "lremovexattr", "chown", "lchown", "fchownat")
# ... checks whether a file may be written, by the argument that says so ...
LOOKING = (("access", 1), ("faccessat", 2), ("faccessat2", 2))
W_OK = 2
# ... umasks, which the warden must know to make names for a caller ...
MASKING = ("umask",)
# ... and every connect, since its address lies behind a pointer. Bind is above: it makes a name too.
CONNECTING = ("connect",)
# ... filters that a program installs: what they compile to counts for the whole machine
# (`linux/warden/filter_budget.py`). The call, and the arguments that say so.
NARROWING = (("seccomp", ((0, 1),)), ("prctl", ((0, 22), (1, 2))))
# Where reads are recorded, every other open too, except those that read nothing (O_PATH).
OPENING = (("open", 1), ("openat", 2))
# Its flags lie behind a pointer; libc falls back to openat.
HIDES_OPEN_FLAGS = ("openat2",)


def rules(
    warden: WardenMode, unix: UnixSockets, reads: ReadNotices = ReadNotices.UNSEEN
) -> Iterator[CallRule]:
    """The rules in the order in which they count."""
    yield CallRule(("clone",), errno(EPERM), (_has_some(0, NEW_BY_CLONE | CLONE_PARENT),))
    yield CallRule(("unshare",), errno(EPERM), (_has_some(0, NEW_BY_UNSHARE),))
    yield CallRule(HIDES_CLONE_FLAGS, errno(ENOSYS))
    for closed in (NAMESPACE_CALLS, MOUNTING, KERNEL_PROGRAMS, BY_HANDLE, MACHINE):
        yield CallRule(closed, errno(EPERM))
    for missing in (IO_URING, MACHINE_WIDE, SECRET_MEMORY, KEYRINGS, OBSOLETE):
        yield CallRule(missing, errno(ENOSYS))
    yield CallRule(("ioctl",), errno(EPERM), (_is(1, *CLOSED_IOCTLS),))
    for call, flags, huge in HUGE_PAGES:
        yield CallRule((call,), errno(ENOMEM), (_has_some(flags, huge),))
    yield CallRule(("fcntl",), errno(EINVAL), (_is(1, *LEASES),))
    yield CallRule(("personality",), errno(EPERM), (_is_not(0, *PERSONALITIES),))
    for call, mode in MODE_OF:
        yield CallRule((call,), errno(EPERM), (_has_some(mode, S_ISUID),))
    yield from _sockets(unix)
    yield CallRule(("setsockopt",), errno(EPERM), (_is(1, SOL_SOCKET), _is(2, *SOCKET_FILTERS)))
    yield from _limits()
    yield from _pace()
    if warden is not WardenMode.ABSENT:
        yield from _notified(WRITING if warden is WardenMode.ASKING else MAKING)
    notes = warden is not WardenMode.ABSENT and reads is ReadNotices.NOTED
    if warden is WardenMode.ASKING or notes:
        yield CallRule((*CHANGING, *NOTED), RET_USER_NOTIF)
    if warden is WardenMode.ASKING:
        for call, wanted in LOOKING:
            yield CallRule((call,), RET_USER_NOTIF, (_has_some(wanted, W_OK),))
    if notes:
        for call, flags in OPENING:
            yield CallRule((call,), RET_USER_NOTIF, (_is(flags, 0, mask=O_PATH),))


def _sockets(unix: UnixSockets) -> Iterator[CallRule]:
    both = ("socket", "socketpair")
    yield CallRule(both, errno(EAFNOSUPPORT), (_is_not(0, *FAMILIES),))
    if unix is UnixSockets.PAIRS:
        yield CallRule(("socket",), errno(EAFNOSUPPORT), (_is(0, AF_UNIX), _has_type(*CONNECTED_TYPES)))
    for family, types, protocols in SOCKETS:
        spoken = () if protocols is None else (_is(2, *protocols),)
        yield CallRule(both, RET_ALLOW, (_is(0, family), _has_type(*types), *spoken))
    yield CallRule(both, errno(EPERM), (_is(0, *INET), _has_type(SOCK_RAW, SOCK_PACKET)))
    unknown = _is_not(1, SOCK_STREAM, SOCK_DGRAM, mask=SOCK_TYPE_MASK)
    yield CallRule(both, errno(ESOCKTNOSUPPORT), (_is(0, *INET), unknown))
    yield CallRule(both, errno(EPROTONOSUPPORT))
    yield CallRule(("setsockopt",), errno(ENOPROTOOPT), (_is(1, TCP), _is(2, *TCP_MODULES)))
    yield CallRule(("setsockopt",), errno(ENOPROTOOPT), (_is(1, IPV6), _is(2, IPV6_FLOWLABEL_MGR)))
    # A connect by another name; programs that try it fall back to connect.
    for send, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        yield CallRule((send,), errno(EOPNOTSUPP), (_has_some(flags, MSG_FASTOPEN),))


def _limits() -> Iterator[CallRule]:
    yield CallRule(("setrlimit",), errno(EPERM), (_is(0, RLIMIT_RTTIME),))
    yield CallRule(("setrlimit",), DONE, (_is(0, RLIMIT_CORE),))
    # prlimit64 only reads limits when its pointer to new ones is null, in both halves. It changes other
    # processes' limits by uid alone, and pid 1 has its commands' uid: a limit of zero there would end the
    # pen.
    for upper in (False, True):
        given = Condition(2, (0,), none_of=True, upper=upper)
        yield CallRule(("prlimit64",), errno(EPERM), (_is(1, RLIMIT_RTTIME), given))
        yield CallRule(("prlimit64",), errno(EPERM), (_is_not(0, 0), given))
        unasked = (Condition(3, (0,)), Condition(3, (0,), upper=True))
        yield CallRule(("prlimit64",), DONE, (_is(1, RLIMIT_CORE), given, *unasked))
        yield CallRule(("prlimit64",), errno(EPERM), (_is(1, RLIMIT_CORE), given))


def _pace() -> Iterator[CallRule]:
    yield CallRule(PACE_BY_PID, errno(EPERM), (_is(0, PID_ONE),))
    for call, process, user in PACE_BY_KIND:
        yield CallRule((call,), errno(EPERM), (_is(0, process), _is(1, PID_ONE)))
        yield CallRule((call,), errno(EPERM), (_is(0, user),))


def _notified(opens: int) -> Iterator[CallRule]:
    """The calls that every warden answers, with opens that have some of these flags."""
    yield CallRule(HIDES_OPEN_FLAGS, errno(ENOSYS))
    for call, flags in OPENING:
        yield CallRule((call,), RET_USER_NOTIF, (_has_some(flags, opens),))
    yield CallRule(NAMING, RET_USER_NOTIF)
    yield CallRule((*MASKING, *CONNECTING), RET_USER_NOTIF)
    for call, arguments in NARROWING:
        yield CallRule((call,), RET_USER_NOTIF, tuple(_is(index, value) for index, value in arguments))


def _is(argument: int, *values: int, mask: int = ALL_BITS) -> Condition:
    return Condition(argument, values, mask)


def _is_not(argument: int, *values: int, mask: int = ALL_BITS) -> Condition:
    return Condition(argument, values, mask, none_of=True)


def _has_type(*types: int) -> Condition:
    """The type of a socket; the other bits of that argument are flags."""
    return _is(1, *types, mask=SOCK_TYPE_MASK)


def _has_some(argument: int, bits: int) -> Condition:
    return _is_not(argument, 0, mask=bits)


def profile(
    architecture: str,
    warden: WardenMode = WardenMode.ABSENT,
    unix: UnixSockets = UnixSockets.PAIRS,
    reads: ReadNotices = ReadNotices.UNSEEN,
) -> list[Instruction]:
    """The program for a pen on this architecture."""
    return compile_rules(rules(warden, unix, reads), architecture, most_frequent="openat")
