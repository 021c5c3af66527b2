"""Makes every odd connect and bind, and prints each answer.

Run bare and in a pen, each in an empty directory: both must print the same.
"""

import ctypes
import errno
import os
import select
import socket
import struct

libc = ctypes.CDLL(None, use_errno=True)
UNIX, INET = socket.AF_UNIX, socket.AF_INET
STREAM, SEQPACKET = socket.SOCK_STREAM, socket.SOCK_SEQPACKET
kept: list[socket.socket] = []


def new(family: int = UNIX, kind: int = STREAM, blocking: bool = True) -> socket.socket:
    kept.append(socket.socket(family, kind))
    kept[-1].setblocking(blocking)
    return kept[-1]


def call(which: str, sock: socket.socket | int, address: object, length: int | None = None) -> str:
    number = sock if isinstance(sock, int) else sock.fileno()
    size = len(address) if length is None and isinstance(address, bytes) else length
    done = getattr(libc, which)(ctypes.c_int(number), address, ctypes.c_int(size or 0))
    return "ok" if done == 0 else errno.errorcode[ctypes.get_errno()]


def unix(path: bytes) -> bytes:
    return struct.pack("=H", UNIX) + path


def inet(port: bytes, host: bytes = b"\x7f\0\0\1") -> bytes:
    return struct.pack("=H", INET) + port + host + bytes(8)


def port_of(sock: socket.socket) -> bytes:
    number: int = sock.getsockname()[1]
    return number.to_bytes(2, "big")


def say(name: str, answer: object) -> None:
    print(name, answer)


def arguments(port: bytes, unused: bytes) -> None:
    for which in ("connect", "bind"):
        say(f"{which} no descriptor", call(which, 999, unix(b"x")))
        say(f"{which} minus one", call(which, -1, unix(b"x")))
        say(f"{which} a file", call(which, os.open("file", os.O_RDONLY), unix(b"x")))
        say(f"{which} a pipe", call(which, os.pipe()[0], unix(b"x")))
        say(f"{which} null", call(which, new(), None, 20))
        say(f"{which} unmapped", call(which, new(), ctypes.c_void_p(4096), 20))
        for length in (0, 1, 2, 128, 129, -1, 2**31 - 1):
            if (which, length) != ("bind", 2):
                say(f"{which} length {length}", call(which, new(), unix(b"\0" + b"y" * 300), length))
            say(f"{which} inet length {length}", call(which, new(INET), inet(unused) + bytes(300), length))
        say(f"{which} 109 bytes", call(which, new(), unix(b"z" * 109)))
        say(f"{which} inet on unix", call(which, new(), inet(port)))
        say(f"{which} unix on inet", call(which, new(INET), unix(b"listening\0")))
        say(f"{which} nowhere on inet", call(which, new(INET), unix(b"nowhere\0")))
        say(f"{which} unspecified", call(which, new(), bytes(16)))
    say("bind far away", call("bind", new(INET), inet(port, b"\1\1\1\1")))


def paths() -> None:
    led = b"listening packets silent gone nowhere dangling loop file directory listening/x / .".split()
    for path in (*led, b"nowhere/x", b"listening\0rest", b"x" * 108, b"directory/" + b"y" * 98):
        for kind in (STREAM, SEQPACKET):
            say(f"connect {path!r} {kind}", call("connect", new(kind=kind), unix(path)))
    taken = b"listening silent gone dangling loop file directory nowhere/x file/x . .. /".split()
    fresh = b"new2/ directory/new ./new3 directory/../new4".split()
    for path in (*taken, *fresh, b"new\0rest", b"w" * 108, b"directory/" + b"v" * 98):
        say(f"bind {path!r}", call("bind", new(), unix(path)))


def states(listening: socket.socket, silent: socket.socket, port: bytes, unused: bytes) -> None:
    twice = new()
    say("bind once", call("bind", twice, unix(b"once\0")))
    say("bind twice", call("bind", twice, unix(b"twice\0")))
    joined = new()
    say("connect once", call("connect", joined, unix(b"listening\0")))
    say("connect twice", call("connect", joined, unix(b"listening\0")))
    say("connect a listener", call("connect", listening, unix(b"packets\0")))
    say("connect oneself", call("connect", silent, unix(b"silent\0")))
    tcp = new(INET)
    say("tcp", call("connect", tcp, inet(port)))
    say("tcp twice", call("connect", tcp, inet(port)))
    say("tcp unused", call("connect", new(INET), inet(unused)))
    say("tcp bind taken", call("bind", new(INET), inet(port)))
    say("tcp dissolve", call("connect", tcp, bytes(16)))


def without_waiting(port: bytes, unused: bytes) -> None:
    late = new(INET, blocking=False)
    say("tcp later", call("connect", late, inet(port)))
    select.select([], [late], [], 5)
    say("tcp later, again", call("connect", late, inet(port)))
    refused = new(INET, blocking=False)
    first = call("connect", refused, inet(unused))
    say("tcp refused later", first in ("EINPROGRESS", "ECONNREFUSED"))
    say("unix does not block", call("connect", new(blocking=False), unix(b"listening\0")))
    narrow = new()
    narrow.bind("narrow")
    narrow.listen(0)
    for _ in range(3):
        say("a full backlog", call("connect", new(blocking=False), unix(b"narrow\0")))
    slow = new()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("=qq", 0, 50000))
    say("a timeout", call("connect", slow, unix(b"narrow\0")))


def modes() -> None:
    for mask in (0, 0o022, 0o077, 0o777):
        os.umask(mask)
        new().bind(f"mask{mask}")
        say(f"mode under {mask:o}", oct(os.stat(f"mask{mask}").st_mode))
    os.umask(0o022)
    mode = new()
    os.fchmod(mode.fileno(), 0o640)
    mode.bind("mode")
    say("mode", oct(os.stat("mode").st_mode))


def sends() -> None:
    for kind in (STREAM, SEQPACKET):
        pair = socket.socketpair(UNIX, kind)
        for name, sock in (("unconnected", new(kind=kind)), ("connected", pair[0])):
            for how in ("sendto", "sendmsg"):
                try:
                    if how == "sendto":
                        answer: object = sock.sendto(b"x", "listening")
                    else:
                        answer = sock.sendmsg([b"x"], [], 0, "listening")
                except OSError as error:
                    answer = errno.errorcode[error.errno or 0]
                say(f"{how} {kind} {name}", answer)


def from_nowhere() -> None:
    os.mkdir("doomed")
    os.chdir("doomed")
    os.rmdir("../doomed")
    say("bind from nowhere", call("bind", new(), unix(b"s\0")))
    say("connect from nowhere", call("connect", new(), unix(b"s\0")))


def main() -> None:
    with open("file", "w"):
        os.mkdir("directory")
    os.symlink("nowhere", "dangling")
    os.symlink("loop", "loop")
    listening, packets, silent, gone = new(), new(kind=SEQPACKET), new(), new()
    for sock, name in ((listening, "listening"), (packets, "packets"), (silent, "silent"), (gone, "gone")):
        sock.bind(name)
    gone.close()
    listening.listen(100)
    packets.listen(100)
    tcp, free = socket.create_server(("127.0.0.1", 0), backlog=100), socket.create_server(("127.0.0.1", 0))
    port, unused = port_of(tcp), port_of(free)
    free.close()
    arguments(port, unused)
    paths()
    states(listening, silent, port, unused)
    without_waiting(port, unused)
    modes()
    sends()
    from_nowhere()


main()
