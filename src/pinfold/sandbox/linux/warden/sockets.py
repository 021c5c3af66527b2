"""connect and bind, on a caller's behalf: the caller's own socket, and an address that was copied once.

Neither ever goes back to the kernel: its address lies behind a pointer, and with descriptor and address
swapped by another thread an allowed inet connect would become one to a unix socket of the host, which no
namespace and, below its ABI 9, no Landlock closes.

What may be connected to:
- a unix path, if its inode was bound in this pen (`bound`) or is a socket that the policy grants;
- an abstract unix name, if it is this pen's (`abstract_names`);
- an internet address of the session's own, in that namespace, but for ports of the machine's loopback that
  were lent; a stream to those or to any other is carried to the gate (`carrying`) if the policy has a way
  out, and is unreachable if not. Other families: in that namespace.

Facts that shape it:
- pidfd_getfd gives us the caller's open file itself. What is connected here is connected there, with its
  epoll registrations; which file the caller's number means by now does not matter.
- The file system's part of a unix connect is done twice: we find the inode, hold it and judge it, then the
  kernel is given `/proc/self/fd/N` of what we hold.
- Links of /proc would be followed with our powers, so a walk that meets one is refused (ELOOP), but for the
  caller's own descriptors, which programs use to reach beyond 108 bytes.

What a program can tell from a connect of its own:
- Its server sees our credentials (SO_PEERCRED): uid and gid are the same, the pid is 0, since we have none in
  there. SCM_CREDENTIALS, which is sent with a message, is right; so is what the client sees of its server.
- A signal handled before we have received the call ends it with EINTR (or begins it again, with SA_RESTART)
  although nothing was begun. Bare, a connect that was interrupted goes on.
- A Landlock domain that a program has put around itself does not bind what is done for it here.
"""

import errno
import os
from collections.abc import Collection, Hashable, Iterable
from contextlib import suppress
from functools import partial

from pinfold.kernel import files
from pinfold.kernel.fast_calls import openat2, read_bytes
from pinfold.kernel.files import AT_FDCWD
from pinfold.kernel.seccomp import is_valid, respond
from pinfold.kernel.sockets import bind, connect, family, has_failed, is_datagram, is_fresh_stream, is_stream
from pinfold.model.codes import ViolationCode
from pinfold.model.gate_protocol import DNS, GATE, PROXY_PORT
from pinfold.model.git_repositories import COMPLETED_BY, COMPLETING
from pinfold.model.protected_names import NameRule, folded, key_in
from pinfold.sandbox.linux.warden.agent_filter import AgentFilter, is_agent
from pinfold.sandbox.linux.warden.bind import Binding
from pinfold.sandbox.linux.warden.blocking_connect import Waiting, close
from pinfold.sandbox.linux.warden.bound_sockets import AbstractNames, Bound, Identity, identity_of, is_alive
from pinfold.sandbox.linux.warden.create import OWN_DESCRIPTORS
from pinfold.sandbox.linux.warden.gate_client import Carried, Carrying
from pinfold.sandbox.linux.warden.notification import Caller, as_int
from pinfold.sandbox.linux.warden.rules import OUTSIDE, PROTECTED
from pinfold.sandbox.linux.warden.socket_address import (
    AF_UNIX,
    Peer,
    abstract_address,
    abstract_name,
    family_of,
    internet_peer,
    is_inside,
    is_loopback,
    length_of,
    unix_address,
    unix_path,
)
from pinfold.sandbox.linux.warden.violations import AGENT, Records

FOREIGN = "this socket was not made in the session"
OTHER_PEN = (
    "a command of this session made this socket under other rules, in another sandbox; "
    "end that server, then start it again under the present rules"
)
ONLY_SIGNS = "a granted ssh agent lists keys and signs, and does nothing else for commands"
NO_NETWORK = "there is no network but the session's own loopback"
NO_NAMES = f"no host's name can be looked up: {NO_NETWORK}"
UNSHOWN = "a pen does not show what the machine has there"
"""Why a connect led nowhere, if the machine has a socket there: the host can tell, the warden cannot."""
UNHEARD = "nobody listens on it in the session"
"""Why a connect to the session's own loopback failed. It is told only if the machine's own has a listener."""
OF_NOBODY = NameRule("", FOREIGN, code=ViolationCode.FOREIGN_SOCKET)
OF_OTHER_PEN = NameRule("", OTHER_PEN, grantable=False, code=ViolationCode.OTHER_SANDBOX)
CLOSED_NETWORK = NameRule("", NO_NETWORK, code=ViolationCode.NO_NETWORK)
CLOSED_NAMES = NameRule("", NO_NAMES, grantable=False, code=ViolationCode.NO_NETWORK)


class Sockets:
    def __init__(
        self,
        listener: int,
        proc: int,
        room: int,
        records: Records,
        places: Collection[str],
        rules: Iterable[NameRule],
        granted: Collection[str],
        agents: Collection[str],
        carrying: Carrying | None,
        covered: tuple[str, ...] = (),
    ) -> None:
        """`agents` are those granted sockets that are known to be an ssh agent's.

        `covered`: what only the pen has empty, if it is to be noted who looks for something there."""
        self.records = records
        self.covered = covered
        self.carrying = carrying
        """The way out; None if there is none."""
        self.descriptors = os.open("self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
        self.bound = Bound(room, self.descriptors)
        self.binding = Binding(proc, places, self.bound)
        self.waiting = Waiting(
            self.descriptors,
            lambda id_, error: respond(listener, id_, error=error),
            lambda id_: is_valid(listener, id_),
        )
        self.abstract_names = AbstractNames(lambda name: abstract_address(name) in self.waiting.targets)
        ends = {folded(rule.name.rstrip("/").rpartition("/")[2]): rule for rule in rules}
        self.protected = {**dict.fromkeys(COMPLETED_BY, COMPLETING), **ends}
        """By the last component: where it stands does not count, see `binding`."""
        self.granted = hold(granted)
        # By inode: the directory of a granted socket may be called something else by the time of a connect.
        self.agents_granted = hold(path for path in granted if path in agents or is_agent(path))
        self.agents = AgentFilter(room, self.descriptors)
        self.handlers = {"connect": self.connect, "bind": self.bind}

    def connect(self, caller: Caller) -> None:
        address, socket = self._read(caller)
        held: tuple[int, ...] = (socket,)
        target: Hashable = address
        path: bytes | None = None
        try:
            path = self._path(socket, address)
            peer = internet_peer(address) if path is None else None
            if peer and peer.port == DNS and is_datagram(socket):
                return self._connect_for_names(caller, socket, address, peer)
            if peer and self._leaves(caller, socket, address, peer):
                return None
            if path is not None:
                inode = self._walk(caller, path)
                held = (socket, inode)
                target = self._reachable(caller, inode)
                if target in self.agents_granted and self._leads_to_agent(caller, held):
                    return None
                address = unix_address(b"%d" % inode)
                os.fchdir(self.descriptors)
            elif name := self._abstract_name(socket, address):
                self._require_own_name(caller, name)
        except OSError as error:
            close(held)
            if self.covered and path and error.errno == errno.ENOENT:
                self._note_covered(caller, path)
            return caller.refuse(error.errno or errno.EACCES)
        if not caller.is_waiting():
            return close(held)
        caller.turns.rest()  # it may take a thread
        look = partial(self._look, caller, peer.port) if peer and is_loopback(peer.host) else None
        answer = self.waiting.connect(caller.id, caller.tag, held, address, target, look)
        return None if answer is None else caller.refuse(answer)

    def _leads_to_agent(self, caller: Caller, held: tuple[int, ...]) -> bool:
        """Whether an ssh agent's socket is connected by its filter; the connect is answered then."""
        socket, inode = held
        path = os.readlink(str(inode), dir_fd=self.descriptors)
        (tag, program), pid = caller.who(), caller.pid

        def refused(deed: str) -> None:
            self.records.add(
                tag,
                f"{AGENT} {deed}",
                path,
                NameRule("", ONLY_SIGNS, grantable=False, code=ViolationCode.AGENT),
                program,
                pid,
            )

        error = self.agents.lead(socket, tag, inode, refused) if caller.is_waiting() else errno.ESRCH
        if error is None:
            return False
        close(held)
        caller.refuse(error)
        return True

    def _look(self, caller: Caller, port: int, socket: int, error: int) -> None:
        """Somebody may have meant the machine's own loopback."""
        is_refused = error == errno.ECONNREFUSED or (error == errno.EINPROGRESS and has_failed(socket))
        if is_refused and is_stream(socket) and self.records.has_room(caller.who()[0]):
            self._record(
                caller, "connect", f"localhost:{port}", NameRule("", UNHEARD, code=ViolationCode.UNHEARD)
            )

    def _connect_for_names(self, caller: Caller, socket: int, address: bytes, peer: Peer) -> None:
        """A datagram socket that will ask for names, unseen by us: the gate is told whose it is."""
        if not self.carrying:
            self._record(caller, "resolve", f"{peer.host}:{DNS}", CLOSED_NAMES)
        if not self.carrying and not is_inside(peer.host):
            raise OSError(errno.ENETUNREACH, NO_NETWORK)
        error = connect(socket, address) if caller.is_waiting() else errno.ESRCH
        if self.carrying and not error:
            self.carrying.ask_names(caller.who()[0], socket)
        os.close(socket)
        return caller.refuse(error)

    def _leaves(self, caller: Caller, socket: int, address: bytes, peer: Peer) -> bool:
        """Whether a connect is not for this session's own network; it is answered then, now or later."""
        proxy = (peer.host, peer.port) == (GATE, PROXY_PORT)
        lent = self._lent(peer)
        if is_inside(peer.host) and not lent and not (proxy and self.carrying):
            return False
        if not self.carrying:
            if is_stream(socket):
                self._record(caller, "connect", f"{peer.host}:{peer.port}", CLOSED_NETWORK)
            raise OSError(errno.ENETUNREACH, NO_NETWORK)
        if not is_fresh_stream(socket, family_of(address)):
            return False
        self.carrying.connect(Carried(caller, socket, address, peer, to_proxy=proxy, lent=lent))
        return True

    def _lent(self, peer: Peer) -> str:
        """The host that this port of loopback was lent as; empty if it is the session's own."""
        if not self.carrying or peer.port not in self.carrying.lent or not is_loopback(peer.host):
            return ""
        return self.carrying.lent[peer.port]

    def bind(self, caller: Caller) -> None:
        address, socket = self._read(caller)
        path = self._path(socket, address)
        if path is not None:
            return self._bind_path(caller, socket, address, path)
        name = self._abstract_name(socket, address)
        if not caller.is_waiting():
            answer = errno.ESRCH
        elif name is None:
            answer = bind(socket, address)  # a port, which belongs to the session's network namespace
        else:
            answer = self.abstract_names.bind(socket, name)
        os.close(socket)
        return caller.refuse(answer)

    def _bind_path(self, caller: Caller, socket: int, address: bytes, path: bytes) -> None:
        directory = caller.directory(AT_FDCWD)
        if directory < 0:
            os.close(socket)
            return caller.refuse(-directory)
        full = self._absolute(directory, path)
        name = folded(os.fsdecode(path.rpartition(b"/")[2]))
        rule = self.protected.get(key_in(self.protected, name))
        if rule:
            close((socket, directory))
            self._record(caller, "bind", full, rule)
            return caller.refuse(PROTECTED)

        def answer(error: int) -> None:
            if error in (errno.EROFS, errno.EACCES):
                self._record(caller, "bind", full, OUTSIDE)
            caller.refuse(error)

        return self.binding.bind(caller, socket, directory, address, answer)

    def _read(self, caller: Caller) -> tuple[bytes, int]:
        """The address, copied, and the socket; raises OSError as the kernel would answer."""
        number, pointer, size, *_ = caller.arguments
        socket = caller.descriptor(as_int(number))
        length = length_of(size)
        address = (
            -errno.EINVAL if length is None else read_bytes(caller.pid, pointer, length) if length else b""
        )
        if isinstance(address, int):
            os.close(socket)
            raise OSError(-address, "no such address")
        return address, socket

    @staticmethod
    def _path(socket: int, address: bytes) -> bytes | None:
        """The path that this socket would take an address for; what is no unix socket takes it for none."""
        path = unix_path(address)
        return path if path is not None and family(socket) == AF_UNIX else None

    @staticmethod
    def _abstract_name(socket: int, address: bytes) -> bytes | None:
        name = abstract_name(address)
        return name if name is not None and family(socket) == AF_UNIX else None

    def _require_own_name(self, caller: Caller, name: bytes) -> None:
        """Raises OSError if no socket of this pen can have the name."""
        if self.abstract_names.has(name):
            return
        if self.abstract_names.is_held_by_another(name):
            shown = "@" + os.fsdecode(name[1:]).replace("\0", "@")
            self._record(caller, "connect", shown, OF_OTHER_PEN)
            raise PermissionError(errno.EACCES, OTHER_PEN)
        raise ConnectionRefusedError(errno.ECONNREFUSED, "no process of this sandbox has this name")

    def _walk(self, caller: Caller, path: bytes) -> int:
        """What a path leads to as the caller sees it, as an O_PATH descriptor."""
        base, rest = AT_FDCWD, path
        for own in OWN_DESCRIPTORS:
            if path.startswith(own):
                number, _, below = path[len(own) :].partition(b"/")
                if number.isdigit():
                    base, rest = caller.descriptor(int(number)), below.lstrip(b"/")
                if not rest:
                    return base
        if base == AT_FDCWD and not path.startswith(b"/"):
            base = caller.directory(AT_FDCWD)
            if base < 0:
                raise OSError(-base, "the working directory cannot be had")
        inode = openat2(base, rest, os.O_PATH, files.RESOLVE_NO_MAGICLINKS)
        if base != AT_FDCWD:
            os.close(base)
        if inode < 0:
            raise OSError(-inode, "it leads nowhere")
        return inode

    def _reachable(self, caller: Caller, inode: int) -> Identity:
        """Which inode it is; raises OSError if the caller may not connect to it."""
        identity = identity_of(inode)
        is_of_another = self.bound.is_held_by_another(identity)
        if self.bound.has(identity) or (identity in self.granted and not is_of_another):
            return identity
        os.fchdir(self.descriptors)
        if not is_alive(inode):
            # Left by a program that ended, or no socket at all: as the kernel says it.
            raise ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens")
        rule = OF_OTHER_PEN if is_of_another else OF_NOBODY
        self._record(caller, "connect", os.readlink(str(inode), dir_fd=self.descriptors), rule)
        raise PermissionError(errno.EACCES, rule.why)

    def _note_covered(self, caller: Caller, path: bytes) -> None:
        place = os.path.realpath(os.fsdecode(path)) if path.startswith(b"/") else ""
        if place.startswith(tuple(f"{cover}/" for cover in self.covered)):
            self._record(caller, "connect", place, NameRule("", UNSHOWN, code=ViolationCode.UNSHOWN))

    def _absolute(self, directory: int, path: bytes) -> str:
        """For the record."""
        here = os.readlink(str(directory), dir_fd=self.descriptors)
        return os.path.normpath(os.path.join(here, os.fsdecode(path)))

    def _record(self, caller: Caller, operation: str, path: str, rule: NameRule) -> None:
        tag, program = caller.who()
        self.records.add(tag, operation, path, rule, program, caller.pid)


def hold(paths: Iterable[str]) -> dict[Identity, int]:
    """The inodes of sockets that are there; held, so that none of their numbers becomes another's."""
    found = {}
    for path in paths:
        with suppress(OSError):
            inode = files.openat2(AT_FDCWD, path, os.O_PATH, resolve=files.RESOLVE_NO_SYMLINKS)
            found[identity_of(inode)] = inode
    return found
