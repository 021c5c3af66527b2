"""What a pen may not ask of the kernel, and what its warden is asked first.

Every set has its reason and its errno: ENOSYS where programs know how to do without, since an older kernel
says so; EPERM where it is what an ordinary user would hear anyway; others where the caller expects them.
Most of these are closed by missing capabilities too. They stand here since the attack surface is the kernel's
code behind them, which a user namespace would otherwise open.

Left open on purpose:
- ptrace, process_vm_*, pidfd_getfd, kcmp: debuggers are ordinary work. Landlock bounds them to the pen's own
  domain, pid 1 is not dumpable, and since 4.8 a tracer's change of a call is judged by this filter again.
- seccomp and landlock_*: a program may narrow itself further, and the warden counts its filters. An error
  outranks a notification, and a second listener is refused by the kernel (EBUSY).
- unlink, utimens, truncate, and chmod but for one bit: the boundary judges them, and they make no names.
"""

from collections.abc import Iterator
from enum import Enum

from pinfold.kernel import namespaces
from pinfold.kernel.seccomp import RET_ALLOW, RET_USER_NOTIF
from pinfold.sandbox.seccomp.bpf import ALL_BITS, Condition, Instruction, Rule, compile_rules, errno

# The kernel's values, as they are on both architectures, whatever machine compiles this.
EPERM, ENOMEM, EINVAL, ENOSYS, ENOPROTOOPT, EPROTONOSUPPORT = 1, 12, 22, 38, 92, 93
ESOCKTNOSUPPORT, EOPNOTSUPP, EAFNOSUPPORT = 94, 95, 97
O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_TMPFILE_ALONE = 0o1, 0o2, 0o100, 0o1000, 0o20000000
O_PATH = 0o10000000
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET, SOCK_PACKET = 1, 2, 3, 5, 10
SOCK_TYPE_MASK = 0xF


class Warden(Enum):
    """Whether somebody listens to the notified calls. Without, names stay unmade, and sockets unconnected."""

    ABSENT = "absent"
    PRESENT = "present"
    ASKING = "asking"
    """It hears of changes too that make no name, since a person may be asked about those denied."""


class Reads(Enum):
    """Whether the warden hears of opens that only read, too."""

    UNSEEN = "unseen"
    """They go at the kernel's speed."""
    NOTED = "noted"
    """Each costs a turn of the warden's, which notes what hidden thing was wanted and lets it go on. So do
    changes that make no name: whoever wants to know of reads wants to know of all that was denied."""


class UnixSockets(Enum):
    """Which unix sockets a program may make: a connect leads to the host's unless something judges it."""

    PAIRS = "pairs"
    """Connected pairs alone: for where neither a warden nor Landlock (ABI 9) judges a connect."""
    STREAMS = "streams"
    """Streams and seqpackets, which have to connect before they speak."""


# Namespaces: a new user namespace gives capabilities in it, and with them all the code that asks for one.
NAMESPACE_CALLS = ("setns",)
# The exit signal of clone lies in its lowest byte, where CLONE_NEWTIME would be.
NEW_BY_CLONE = namespaces.NEW_NAMESPACES & ~0xFF
NEW_BY_UNSHARE = namespaces.NEW_NAMESPACES

# A child of the caller's parent: of the spawner, which awaits its commands alone. What has ended and nobody
# awaits counts as a process until the session ends, and no other could be started.
CLONE_PARENT = 0x8000

# Its flags lie behind a pointer. libc falls back to clone.
HIDES_CLONE_FLAGS = ("clone3",)

# The tree of mounts is the fence.
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

# A way around this filter: its requests are made by the kernel, and no filter sees them.
IO_URING = ("io_uring_setup", "io_uring_enter", "io_uring_register")

# The machine has 65,536 requests (fs.aio-max-nr) for all users, and one command could reserve every one.
# Databases that want some do without where a kernel has none. The messages that POSIX queues may hold
# (RLIMIT_MSGQUEUE) are counted for the user in all namespaces, until the queue's namespace ends; and Landlock
# lets nobody in a pen open a queue.
MACHINE_WIDE = ("io_setup", "mq_open")
# Memory that is no process's once it is unmapped, and cannot be swapped out: a kernel that is short of memory
# ends other programs for it. Most kernels before Linux 6.5 lack the call.
SECRET_MEMORY = ("memfd_secret",)
# An administrator reserves huge pages for one program (vm.nr_hugepages), and any other can take them all.
# MAP_HUGETLB, MFD_HUGETLB and SHM_HUGETLB, each with the argument that has it: as where none is free.
HUGE_PAGES = (("mmap", 3, 0x40000), ("memfd_create", 1, 0x4), ("shmget", 2, 0o4000))

# Programs in the kernel, and its counters; a fault handler in user space holds the kernel still mid-copy.
KERNEL_PROGRAMS = ("bpf", "perf_event_open", "userfaultfd")

# Keyrings belong to the user, not to a namespace: the host's keys would be seen. As without CONFIG_KEYS.
KEYRINGS = ("add_key", "request_key", "keyctl")

# Opens a file by its inode, past every directory, mount and hidden path above it.
BY_HANDLE = ("open_by_handle_at",)

# The machine's own: other kernels, modules, swap, clocks, accounting, quotas, ports, the kernel's log.
MACHINE = (
    *("kexec_load", "kexec_file_load", "reboot"),
    *("init_module", "finit_module", "delete_module", "create_module", "get_kernel_syms", "query_module"),
    *("swapon", "swapoff", "settimeofday", "clock_settime", "acct", "quotactl", "quotactl_fd"),
    *("iopl", "ioperm", "vhangup", "sethostname", "setdomainname", "syslog", "fanotify_init"),
)

# Nobody has called these for decades.
OBSOLETE = ("uselib", "ustat", "sysfs", "_sysctl", "nfsservctl", "lookup_dcookie", "vserver", "modify_ldt")

# Terminals: typing into one (TIOCSTI), pasting on a console (TIOCLINUX), line disciplines (TIOCSETD), which
# are drivers nobody here needs.
TERMINAL_IOCTLS = (0x5412, 0x541C, 0x5423)
# Subvolumes of btrfs and bcachefs: names made, and removed, where Landlock has no hook.
# _IOW(0x94, n, 4096): SNAP_CREATE, SUBVOL_CREATE, SNAP_DESTROY, both _V2, SNAP_DESTROY_V2.
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

# Bridges and VLANs, by old calls: whoever makes one loads its driver, and is asked for powers only then.
# SIOCGIFBR, SIOCSIFBR, SIOCBRADDBR, SIOCBRDELBR, SIOCGIFVLAN, SIOCSIFVLAN.
DRIVER_IOCTLS = (0x8940, 0x8941, 0x89A0, 0x89A1, 0x8982, 0x8983)
CLOSED_IOCTLS = (
    *TERMINAL_IOCTLS,
    *SUBVOLUME_IOCTLS,
    *NAMING_IOCTLS,
    *ENCRYPTION_IOCTLS,
    *DRIVER_IOCTLS,
)

# A lease (F_SETLEASE, F_SETDELEG) on any file of the user's that can be read makes whoever else opens it wait
# for 45 seconds, on the machine too; who does not wait hears EAGAIN. As of a file system without leases.
LEASES = (1024, 1040)

# A program with this bit runs as its owner, whoever starts it: not in a pen, but on the machine.
S_ISUID = 0o4000
MODE_OF = (("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2))

# Sockets. Where the kernel lacks a family, type and protocol it loads a module of that name, whoever asks
# (`net-pf-2-proto-0-type-5`): so the three are listed as they go together. What is not listed is drivers and
# protocols that a build does not need, some of which (AF_VSOCK, AF_BLUETOOTH, AF_QIPCRTR) know no network
# namespace. Of netlink, ordinary programs use the part that lists addresses and routes.
FAMILIES = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
INET = (AF_INET, AF_INET6)
IP, ICMP, TCP, UDP, ICMPV6, NETLINK_ROUTE = 0, 1, 6, 17, 58, 0
# A datagram names its receiver in each send; AF_UNIX makes a datagram socket of SOCK_RAW.
CONNECTED_TYPES = (SOCK_STREAM, SOCK_SEQPACKET)
# Family, types, protocols (None: the kernel has but one, and looks for no module). Not Multipath TCP, which
# Landlock's TCP rights do not see; Go and others that ask for it first fall back to TCP.
SOCKETS = (
    (AF_UNIX, CONNECTED_TYPES, None),
    (AF_INET, (SOCK_STREAM,), (IP, TCP)),
    (AF_INET, (SOCK_DGRAM,), (IP, UDP, ICMP)),
    (AF_INET6, (SOCK_STREAM,), (IP, TCP)),
    (AF_INET6, (SOCK_DGRAM,), (IP, UDP, ICMPV6)),
    (AF_NETLINK, (SOCK_DGRAM, SOCK_RAW), (NETLINK_ROUTE,)),
)
# What a TCP socket can have besides: signatures (TCP_MD5SIG, _EXT, TCP_AO_ADD_KEY), which load a cipher by a
# name of the caller's, and other protocols on top (TCP_ULP). As of a kernel built without.
TCP_MODULES = (14, 32, 38, 31)
MSG_FASTOPEN = 0x20000000
# Flow labels, of which a machine has 4,096 for all users and network namespaces (IPV6_FLOWLABEL_MGR).
IPV6, IPV6_FLOWLABEL_MGR = 41, 32

# A filter on a socket is compiled code, which the kernel counts for the whole machine, and a command may have
# tens of thousands of sockets. Packet captures need one, and sockets that no pen has.
SOL_SOCKET = 1
SOCKET_FILTERS = (26, 50, 51, 52)

# The mark by which a command's processes are found and killed; see sandbox/linux/init/tags.py.
RLIMIT_RTTIME = 15

# Who ends commands, and with whom a session ends: slowed down, among processes that are not, it has its turn
# when those have ended by themselves. Its uid is theirs, so the kernel lets them. A pen makes no pid
# namespaces: 1 is always this one. Its process group is the keeper's, which has no number inside.
PID_ONE = 1
PACE_BY_PID = ("sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr")
# Call, what means one process by its pid, and what means all of a user's.
PACE_BY_KIND = (("setpriority", 0, 2), ("ioprio_set", 1, 3))

# The default, 32-bit names, uname 2.6 and no address randomisation (debuggers, sanitizers); -1 only asks. The
# rest turns old bugs back on, such as READ_IMPLIES_EXEC.
PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0x40000, 0x40008, 0xFFFFFFFF)

# The warden is asked: about opens that may make a file, or empty one, as `cp` does ...
MAKING = O_CREAT | O_TMPFILE_ALONE | O_TRUNC
# ... about calls that make a name, which Landlock withholds in writable roots ...
NAMING = (
    *("creat", "mkdir", "mkdirat", "mknod", "mknodat", "link", "linkat", "symlink", "symlinkat"),
    *("rename", "renameat", "renameat2", "bind"),
)
# ... where a person can be asked, or all is noted, about opens that write into what is there: every run of
# git has one, of /dev/null, and the warden's turn would be a hundredth of `git status` ...
WRITING = MAKING | O_WRONLY | O_RDWR
# ... about other changes by path ...
CHANGING = ("unlink", "unlinkat", "rmdir", "truncate", "chmod", "fchmodat", "fchmodat2")
# ... about changes that are only noted: they are rare, and a person is asked about the command afterwards ...
NOTED = ("setxattr", "lsetxattr", "removexattr", "lremovexattr", "chown", "lchown", "fchownat")
# ... and about looks at whether something may be written, by the argument that says so ...
LOOKING = (("access", 1), ("faccessat", 2), ("faccessat2", 2))
W_OK = 2
# ... about umasks, which whoever makes something for another has to know ...
MASKING = ("umask",)
# ... and about every connect, since the address lies behind a pointer. Bind is above: it makes a name too.
CONNECTING = ("connect",)
# ... about filters that a program installs: what they compile to is counted for the whole
# machine (`linux/filter_budget`). Call, and the arguments that say so.
NARROWING = (("seccomp", ((0, 1),)), ("prctl", ((0, 22), (1, 2))))
# Where reads are noted, about every other open too, but those that read nothing (O_PATH).
OPENING = (("open", 1), ("openat", 2))
# Its flags lie behind a pointer; libc falls back to openat.
HIDES_OPEN_FLAGS = ("openat2",)


def rules(warden: Warden, unix: UnixSockets, reads: Reads = Reads.UNSEEN) -> Iterator[Rule]:
    """The profile, in the order in which it counts."""
    yield Rule(("clone",), errno(EPERM), (_has_some(0, NEW_BY_CLONE | CLONE_PARENT),))
    yield Rule(("unshare",), errno(EPERM), (_has_some(0, NEW_BY_UNSHARE),))
    yield Rule(HIDES_CLONE_FLAGS, errno(ENOSYS))
    for closed in (NAMESPACE_CALLS, MOUNTING, KERNEL_PROGRAMS, BY_HANDLE, MACHINE):
        yield Rule(closed, errno(EPERM))
    for missing in (IO_URING, MACHINE_WIDE, SECRET_MEMORY, KEYRINGS, OBSOLETE):
        yield Rule(missing, errno(ENOSYS))
    yield Rule(("ioctl",), errno(EPERM), (_is(1, *CLOSED_IOCTLS),))
    for call, flags, huge in HUGE_PAGES:
        yield Rule((call,), errno(ENOMEM), (_has_some(flags, huge),))
    yield Rule(("fcntl",), errno(EINVAL), (_is(1, *LEASES),))
    yield Rule(("personality",), errno(EPERM), (_is_not(0, *PERSONALITIES),))
    for call, mode in MODE_OF:
        yield Rule((call,), errno(EPERM), (_has_some(mode, S_ISUID),))
    yield from _sockets(unix)
    yield Rule(("setsockopt",), errno(EPERM), (_is(1, SOL_SOCKET), _is(2, *SOCKET_FILTERS)))
    yield from _limits()
    yield from _pace()
    if warden is not Warden.ABSENT:
        yield from _notified(WRITING if warden is Warden.ASKING else MAKING)
    notes = warden is not Warden.ABSENT and reads is Reads.NOTED
    if warden is Warden.ASKING or notes:
        yield Rule((*CHANGING, *NOTED), RET_USER_NOTIF)
    if warden is Warden.ASKING:
        for call, wanted in LOOKING:
            yield Rule((call,), RET_USER_NOTIF, (_has_some(wanted, W_OK),))
    if notes:
        for call, flags in OPENING:
            yield Rule((call,), RET_USER_NOTIF, (_is(flags, 0, mask=O_PATH),))


def _sockets(unix: UnixSockets) -> Iterator[Rule]:
    both = ("socket", "socketpair")
    yield Rule(both, errno(EAFNOSUPPORT), (_is_not(0, *FAMILIES),))
    if unix is UnixSockets.PAIRS:
        yield Rule(("socket",), errno(EAFNOSUPPORT), (_is(0, AF_UNIX), _has_type(*CONNECTED_TYPES)))
    for family, types, protocols in SOCKETS:
        spoken = () if protocols is None else (_is(2, *protocols),)
        yield Rule(both, RET_ALLOW, (_is(0, family), _has_type(*types), *spoken))
    yield Rule(both, errno(EPERM), (_is(0, *INET), _has_type(SOCK_RAW, SOCK_PACKET)))
    unknown = _is_not(1, SOCK_STREAM, SOCK_DGRAM, mask=SOCK_TYPE_MASK)
    yield Rule(both, errno(ESOCKTNOSUPPORT), (_is(0, *INET), unknown))
    yield Rule(both, errno(EPROTONOSUPPORT))
    yield Rule(("setsockopt",), errno(ENOPROTOOPT), (_is(1, TCP), _is(2, *TCP_MODULES)))
    yield Rule(("setsockopt",), errno(ENOPROTOOPT), (_is(1, IPV6), _is(2, IPV6_FLOWLABEL_MGR)))
    # A connect by another name; whoever tries it falls back to connect.
    for send, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        yield Rule((send,), errno(EOPNOTSUPP), (_has_some(flags, MSG_FASTOPEN),))


def _limits() -> Iterator[Rule]:
    yield Rule(("setrlimit",), errno(EPERM), (_is(0, RLIMIT_RTTIME),))
    # prlimit64 only asks when its pointer to new limits is null, in both halves. It changes others' limits by
    # uid alone, and pid 1 has its commands' uid: a limit of nothing there would end the pen.
    for upper in (False, True):
        given = Condition(2, (0,), none_of=True, upper=upper)
        yield Rule(("prlimit64",), errno(EPERM), (_is(1, RLIMIT_RTTIME), given))
        yield Rule(("prlimit64",), errno(EPERM), (_is_not(0, 0), given))


def _pace() -> Iterator[Rule]:
    yield Rule(PACE_BY_PID, errno(EPERM), (_is(0, PID_ONE),))
    for call, process, user in PACE_BY_KIND:
        yield Rule((call,), errno(EPERM), (_is(0, process), _is(1, PID_ONE)))
        yield Rule((call,), errno(EPERM), (_is(0, user),))


def _notified(opens: int) -> Iterator[Rule]:
    """What the warden is asked about wherever there is one, with opens that have some of these flags."""
    yield Rule(HIDES_OPEN_FLAGS, errno(ENOSYS))
    for call, flags in OPENING:
        yield Rule((call,), RET_USER_NOTIF, (_has_some(flags, opens),))
    yield Rule(NAMING, RET_USER_NOTIF)
    yield Rule((*MASKING, *CONNECTING), RET_USER_NOTIF)
    for call, arguments in NARROWING:
        yield Rule((call,), RET_USER_NOTIF, tuple(_is(index, value) for index, value in arguments))


def _is(argument: int, *values: int, mask: int = ALL_BITS) -> Condition:
    return Condition(argument, values, mask)


def _is_not(argument: int, *values: int, mask: int = ALL_BITS) -> Condition:
    return Condition(argument, values, mask, none_of=True)


def _has_type(*types: int) -> Condition:
    """Of a socket: the other bits of that argument are flags."""
    return _is(1, *types, mask=SOCK_TYPE_MASK)


def _has_some(argument: int, bits: int) -> Condition:
    return _is_not(argument, 0, mask=bits)


def profile(
    architecture: str,
    warden: Warden = Warden.ABSENT,
    unix: UnixSockets = UnixSockets.PAIRS,
    reads: Reads = Reads.UNSEEN,
) -> list[Instruction]:
    """The program for a pen on this architecture."""
    return compile_rules(rules(warden, unix, reads), architecture, most_frequent="openat")
