"""Prints the answers to calls that make names. Run bare and in a pen, it must print the same."""

import ctypes
import errno
import fcntl
import mmap
import os
import resource
import socket
import stat
import sys
import threading
from collections.abc import Callable

libc = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE, WHITEOUT = 1, 2, 4
AT_FDCWD, AT_EMPTY_PATH, AT_SYMLINK_FOLLOW = -100, 0x1000, 0x400
RENAMEAT2 = {"x86_64": 316, "aarch64": 276}[os.uname().machine]


def raw(number: int, *arguments: int | bytes) -> None:
    wide = [ctypes.c_long(each) if isinstance(each, int) else ctypes.c_char_p(each) for each in arguments]
    if libc.syscall(ctypes.c_long(number), *wide) < 0:
        raise OSError(ctypes.get_errno(), "")


def say(what: str, action: Callable[..., object], *arguments: object, **more: object) -> None:
    try:
        answer = action(*arguments, **more)
    except OSError as error:
        answer = errno.errorcode[error.errno or 0]
    print(what, answer)


def opened(path: str | bytes, flags: int, mode: int = 0o666, dir_fd: int | None = None) -> object:
    descriptor = os.open(path, flags, mode, dir_fd=dir_fd)
    try:
        status = os.fstat(descriptor)
        shown = fcntl.fcntl(descriptor, fcntl.F_GETFL) & ~0o100000, fcntl.fcntl(descriptor, fcntl.F_GETFD)
        return oct(status.st_mode), status.st_size, shown, status.st_uid == os.getuid()
    finally:
        os.close(descriptor)


def mode(path: str | bytes) -> str:
    return oct(os.lstat(path).st_mode)


def renamed_from_closed_directories() -> None:
    os.mkdir("closed")
    opened("closed/in", os.O_CREAT | os.O_WRONLY)
    for bits in (0, 0o200, 0o400):
        os.chmod("closed", bits)
        for old, new in (("closed/in", "out"), ("closed/none", "out"), ("none", "closed/new")):
            say(f"closed {bits:o} {old} {new}", os.rename, old, new)
    os.chmod("closed", 0o700)


def main() -> None:
    c, x, w, r = os.O_CREAT, os.O_EXCL, os.O_WRONLY, os.O_RDWR
    for mask in (0o022, 0o077, 0o002, 0, 0o277, 0o777):
        os.umask(mask)
        for bits in (0o666, 0o777, 0o600, 0o2755, 0):
            say(f"file {mask:o} {bits:o}", opened, f"f{mask:o}-{bits:o}", c | w, bits)
            say(f"directory {mask:o} {bits:o}", os.mkdir, f"d{mask:o}-{bits:o}", bits)
            say("it is", mode, f"d{mask:o}-{bits:o}")
    os.umask(0o022)
    for flags in (
        c,
        c | w,
        c | r,
        c | w | os.O_APPEND,
        c | r | os.O_NONBLOCK,
        c | w | os.O_SYNC,
        c | w | os.O_TRUNC,
        c | w | x,
        c | r | os.O_NOFOLLOW,
        c | w | os.O_NOATIME,
        c | r | os.O_DIRECT,
        c | os.O_DIRECTORY | w,
        c | os.O_PATH,
    ):
        for path in ("new", "new", "f22-666"):
            say(f"open {flags:o} {path}", opened, path, flags)
        if os.path.lexists("new"):
            os.unlink("new")
    # inheritable
    descriptor = os.open("inherited", c | w)
    os.close(descriptor)
    number = libc.open(b"plain", c | w, 0o644)
    say("close-on-exec", os.get_inheritable, number)
    os.close(number)
    # things are not as they should be
    with open("file", "w") as file:
        file.write("text")
    os.mkdir("dir")
    # Without a pen, root would not be stopped.
    os.mkdir("closed", 0o755 if os.getuid() == 0 else 0o555)
    for path in (
        "",
        "no/where",
        "file/x",
        "dir",
        "dir/",
        "new/",
        ".",
        "..",
        "dir/.",
        "a" * 255,
        "a" * 256,
        "x/" * 2100,
        "./a//b/../b",
        "dir//new",
        "dir/../twice",
        "closed/x",
        "///dir/nothing",
    ):
        say(f"open {path[:20]!r}", opened, path, c | w)
        say(f"open exclusively {path[:20]!r}", opened, path, c | w | x)
        say(f"mkdir {path[:20]!r}", os.mkdir, path)
        say(f"symlink {path[:20]!r}", os.symlink, "t", path)
        say(f"rename to {path[:20]!r}", os.rename, "dir", path)
        say(f"link to {path[:20]!r}", os.link, "file", path)
        say(f"mkfifo {path[:20]!r}", os.mkfifo, path)
    print(sorted(os.listdir(".")))
    # what exists already, and cannot be opened as it is
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("bound")
    with open("unwritable", "w") as file:
        os.fchmod(file.fileno(), 0o644 if os.getuid() == 0 else 0o444)
    for path in ("pipe", "bound", "unwritable", f"{os.getcwd()}/unwritable", "dir/../unwritable"):
        say(f"there {os.path.basename(path)}", opened, path, c | os.O_RDWR | os.O_NONBLOCK)
    for bad in (b"\xff\xfe", "ü".encode(), b"new\nline", b"a b", b"-rf", b"*"):
        say(f"name {bad!r}", opened, bad, c | w)
    # links
    os.symlink("nowhere", "dangling")
    os.symlink("dangling", "twice-dangling")
    os.symlink("loop2", "loop1")
    os.symlink("loop1", "loop2")
    os.symlink("dir2", "to-dir")
    os.mkdir("dir2")
    os.symlink(os.path.abspath("dir2/absolute"), "to-absolute")
    os.symlink("../file", "dir2/up")
    for path in ("loop1", "dangling", "to-dir", "to-dir/x", "to-absolute", "dir2/up", "to-dir/up"):
        say(f"no follow {path}", opened, path, c | w | os.O_NOFOLLOW)
        say(f"exclusive {path}", opened, path, c | w | x)
        say(f"open {path}", opened, path, c | w)
    say("through", opened, "twice-dangling", c | w)
    print(os.path.exists("nowhere"), os.path.exists("dir2/absolute"))
    os.symlink("no/where", "far")
    ways = (
        "no/x",
        "no//x/",
        "no/no/x",
        "./no/x",
        "dir2/no/x",
        "dir2/.",
        "dir2/..",
        "no/.",
        "no/../x",
        "far/x",
        "far",
    )
    for way in (*ways, f"{os.getcwd()}/no/no/x", "/no/x", "/proc/no/x"):
        say("nowhere mkdir", os.mkdir, way)
        say("nowhere link", os.symlink, "x", way)
        say("nowhere rename", os.rename, way, "x")
        for flags in (c | w, c | w | x):
            say("nowhere open", opened, way, flags)
    for path in ("dangling", "to-dir", "loop1", "loop1/x"):
        say(f"mkdir {path}", os.mkdir, path)
        say(f"mkdir {path}/", os.mkdir, f"{path}/")
    # descriptors
    here = os.open("dir2", os.O_RDONLY)
    only = os.open("dir2", os.O_PATH)
    text = os.open("file", os.O_RDONLY)
    for name, base in (("dir", here), ("path", only), ("file", text), ("bad", 999)):
        say(f"openat {name}", opened, f"by-{name}", c | w, dir_fd=base)
        say(f"mkdirat {name}", os.mkdir, f"dir-{name}", dir_fd=base)
        say(f"symlinkat {name}", os.symlink, "t", f"link-{name}", dir_fd=base)
        say(f"mknodat {name}", os.mkfifo, f"fifo-{name}", dir_fd=base)
        say(f"renameat {name}", os.rename, f"dir-{name}", f"moved-{name}", src_dir_fd=base, dst_dir_fd=base)
        say(f"linkat {name}", os.link, "up", f"hard-{name}", src_dir_fd=base, follow_symlinks=False)
        say(f"absolute {name}", opened, os.path.abspath(f"abs-{name}"), c | w, dir_fd=base)
    print(sorted(os.listdir("dir2")))
    # kinds
    for kind in (stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK, 0):
        say(f"mknod {kind:o}", os.mknod, f"node{kind:o}", kind | 0o666)
        say("it is", mode, f"node{kind:o}")
        say("again", os.mknod, f"node{kind:o}", kind | 0o666)
    # links and renames
    os.makedirs("tree/deep")
    os.makedirs("full/of")
    for path in ("file2", "tree/deep/leaf"):
        open(path, "w").close()
    for old, new in (
        ("file", "file3"),
        ("nothing", "x"),
        ("tree", "tree2"),
        ("tree2", "full"),
        ("tree2", "dir2"),
        ("file2", "dir2"),
        ("dir2", "file2"),
        ("tree2", "tree2/deep/in-itself"),
        ("tree2/deep", "tree2"),
        ("file3", "file2"),
        ("dangling", "dangling2"),
        ("tree2/", "tree3/"),
        ("file2/", "file9"),
        ("tree3", "empty"),
        ("closed", "closed2"),
        ("file2", "closed2/x"),
        (".", "x"),
        ("..", "x"),
    ):
        say(f"rename {old} {new}", os.rename, old, new)
    for old, new in (
        ("file2", "hard"),
        ("dir2", "hard2"),
        ("nothing", "hard3"),
        ("file2", "hard"),
        ("dangling2", "hard4"),
    ):
        say(f"link {old} {new}", os.link, old, new)
        say(f"link itself {old} {new}", os.link, old, f"{new}-", follow_symlinks=False)
    say("count", lambda: os.stat("hard").st_nlink)
    for flags in (NOREPLACE, EXCHANGE, NOREPLACE | EXCHANGE, 8):
        open("one", "w").close()
        with open("two", "w") as file:
            file.write("2")
        say(f"renameat2 {flags}", raw, RENAMEAT2, AT_FDCWD, b"one", AT_FDCWD, b"two", flags)
        say(f"renameat2 {flags} dir", raw, RENAMEAT2, AT_FDCWD, b"two", AT_FDCWD, b"full", flags)
        print(sorted(os.listdir(".")))
        if not os.path.isdir("full"):
            raw(RENAMEAT2, AT_FDCWD, b"two", AT_FDCWD, b"full", EXCHANGE)
    say("symlink to nothing", os.symlink, "", "empty-link")
    say("long symlink", os.symlink, "t" * 4095, "long-link")
    say("too long symlink", os.symlink, "t" * 4096, "longer-link")
    # O_TMPFILE, and the two ways to name what it makes
    for path in (".", "dir2", "file2", "nothing"):
        say(f"tmpfile {path}", opened, path, os.O_TMPFILE | r)
        say(f"tmpfile by path {path}", opened, path, os.O_TMPFILE | os.O_PATH)
    for number, (source, flags) in enumerate(
        ((b"/proc/self/fd/%d", AT_SYMLINK_FOLLOW), (b"", AT_EMPTY_PATH))
    ):
        unnamed = os.open(".", os.O_TMPFILE | r, 0o640)
        os.write(unnamed, b"hello")
        link = source % unnamed if source else source
        base = AT_FDCWD if source else unnamed
        answer = libc.linkat(base, link, AT_FDCWD, b"named%d" % number, flags)
        # Until 6.10 the second asks for a capability.
        print("named", answer, os.path.exists("named0") and mode("named0"))
        os.close(unnamed)
    # registers are wider than what the kernel takes of them
    openat = {"x86_64": 257, "aarch64": 56}[os.uname().machine]
    high = 0x5A5A << 32
    say("wide", raw, openat, AT_FDCWD | high, b"wide", c | w | high, 0o640 | high | 0x7FFF0000)
    say("it is", mode, "wide")
    say("wide", raw, RENAMEAT2, AT_FDCWD, b"wide", AT_FDCWD, b"wider", NOREPLACE | high)
    # the calls themselves, as old programs make them
    print("creat", libc.creat(b"created", 0o640) >= 0, mode("created"))
    print("bad pointer", libc.open(ctypes.c_void_p(8), c | w, 0o640), errno.errorcode[ctypes.get_errno()])
    print("bad pointer", libc.mkdir(ctypes.c_void_p(8), 0o640), errno.errorcode[ctypes.get_errno()])
    print("bad pointer", libc.rename(b"created", ctypes.c_void_p(8)), errno.errorcode[ctypes.get_errno()])
    print("bad pointer", libc.symlink(ctypes.c_void_p(8), b"y"), errno.errorcode[ctypes.get_errno()])
    print("bad pointer", libc.link(ctypes.c_void_p(8), b"y"), errno.errorcode[ctypes.get_errno()])
    # a path that ends where its page does, and one that runs over
    pages = mmap.mmap(-1, 3 * 4096)
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    for offset, edge in ((4096 - 5, b"edge"), (4096 - 3, b"across"), (3 * 4096 - 4, b"end")):
        pages[offset : offset + len(edge) + 1] = edge + b"\0"
        print(edge, libc.mkdir(ctypes.c_void_p(start + offset), 0o750), mode(edge))
    # one thread's directory is not the other's
    seen: list[str] = []

    def elsewhere() -> None:
        libc.unshare(0x200)
        os.chdir("dir2")
        os.umask(0o077)
        os.mkdir("by-thread")
        seen.append(mode("by-thread"))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    os.mkdir("by-main")
    print(seen, mode("by-main"), os.path.exists("dir2/by-thread"))
    # a caller whose /proc is closed
    libc.prctl(4, 0, 0, 0, 0)
    for where in (None, here):
        say("not dumpable", opened, f"dark{where}", c | w, dir_fd=where)
        say("not dumpable", os.mkdir, f"dark-{where}", dir_fd=where)
    libc.prctl(4, 1, 0, 0, 0)
    # a directory that is gone
    os.mkdir("gone")
    gone = os.open("gone", os.O_RDONLY)
    os.rmdir("gone")
    say("in what is gone", opened, "x", c | w, dir_fd=gone)
    os.mkdir("gone (deleted)")
    for name in ("x", "y"):
        say("so named", opened, f"gone (deleted)/{name}", c | w)
        say("still gone", opened, f"other-{name}", c | w, dir_fd=gone)
    # a directory that is moved, and another in its place
    os.mkdir("moved")
    moved = os.open("moved", os.O_RDONLY)
    for name in ("one", "two"):
        say("as it was", opened, name, c | w, dir_fd=moved)
    os.rename("moved", "away")
    os.mkdir("moved")
    say("in its place", opened, "moved/three", c | w)
    say("as it is", opened, "four", c | w | x, dir_fd=moved)
    print(sorted(os.listdir("away")), os.listdir("moved"))
    # a link in the place of a directory
    os.mkdir("real")
    for name in ("real/one", "real/two"):
        say("in a directory", opened, name, c | w)
    os.rename("real", "really")
    os.symlink("away", "real")
    for flags in (c | w, c | w | x):
        say("by a link", opened, f"real/three{flags}", flags)
    print(sorted(os.listdir("away")), sorted(os.listdir("really")))
    # a umask that changes all the time, in a thread that shares it too
    for number in range(20):
        os.umask(0o077 if number % 2 else 0o022)
        say("masked", opened, f"masked{number}", c | w | x)
        other = threading.Thread(target=os.umask, args=(0o022 if number % 2 else 0o027,))
        other.start()
        other.join()
        say("by another", opened, f"by-another{number}", c | w)
    if os.geteuid():  # root's own powers are not a pen's
        renamed_from_closed_directories()
    # no room for a descriptor
    with open("with-text", "w") as file:
        file.write("text")
    say("read and emptied", opened, "with-text", c | os.O_TRUNC)
    with open("with-text", "w") as file:
        file.write("text")
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    say("no room", os.open, "no-room", c | w)
    say("it is", os.path.exists, "no-room")
    say("no room to empty it", os.open, "with-text", c | w | os.O_TRUNC)
    say("it has", os.path.getsize, "with-text")


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    main()
