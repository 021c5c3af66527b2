"""Does connect and bind for callers: on the caller's own socket, with an address that was copied once.

Neither call ever goes back to the kernel, since its address lies behind a pointer. If another thread swapped
descriptor and address, an allowed inet connect would become one to a unix socket of the host. No namespace
prevents that, nor does Landlock before ABI 9.

A command may connect to:
- a unix path, if its inode was bound in this pen (`bound_sockets`) or is a socket that the policy grants;
- an abstract unix name, if it belongs to this pen (`bound_sockets`);
- an internet address of the session's own, in that namespace, except for lent ports of the host's loopback. A
  stream to such a port or to any other address goes to the gate (`gate_client`) if the policy has network
  access, and is unreachable if not. Other families: in that namespace.

Facts that shape it:
- pidfd_getfd gives us the caller's open file itself. A connect here connects it there, with its epoll
  registrations. It does not matter what the caller's descriptor number means by now.
- The file system part of a unix connect is done twice. We find the inode, hold it and judge it; then the
  kernel gets `/proc/self/fd/N` of what we hold.
- The kernel would follow links of /proc with our capabilities. So a walk that meets one is refused (ELOOP),
  except for the caller's own descriptors, which programs use to reach paths of over 108 bytes.

What a program can notice about its connect:
- Its server sees our credentials (SO_PEERCRED): uid and gid are the same, the pid is 0, since we have none in
  that namespace. SCM_CREDENTIALS, sent with a message, is right, and so is what the client sees of its
  server.
- A signal handled before we have received the call ends it with EINTR (or restarts it, with SA_RESTART)
  although nothing was begun. Without a sandbox, an interrupted connect goes on.
- A Landlock domain that a program put itself into does not bind what is done for it here.
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
from pinfold.sandbox.linux.warden.bind import BindThread
from pinfold.sandbox.linux.warden.blocking_connect import BlockingConnects, close
from pinfold.sandbox.linux.warden.bound_sockets import (
    AbstractNames,
    BoundSockets,
    InodeKey,
    identity_of,
    is_alive,
)
from pinfold.sandbox.linux.warden.create import OWN_DESCRIPTORS
from pinfold.sandbox.linux.warden.gate_client import GateClient, PendingConnect
from pinfold.sandbox.linux.warden.name_check import OUTSIDE, PROTECTED
from pinfold.sandbox.linux.warden.notification import Caller, as_int
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
from pinfold.sandbox.linux.warden.violations import AGENT, ViolationLog

FOREIGN = "this socket was not made in the session"
OTHER_PEN = (
    "a command of this session made this socket under other rules, in another sandbox; "
    "end that server, then start it again under the present rules"
)
ONLY_SIGNS = "a granted ssh agent lists keys and signs, and does nothing else for commands"
NO_NETWORK = "the sandbox has no network except the session's own loopback"
NO_NAMES = f"host names cannot be looked up: {NO_NETWORK}"
UNSHOWN = "the sandbox hides the machine's own files there"
"""Why a connect failed, if the host has a socket there: the host can find out, the warden cannot."""
UNHEARD = "no process of the session listens on that port"
"""Why a connect to the session's own loopback failed. Reported only if the host's loopback has a listener
there."""
OF_NOBODY = NameRule("", FOREIGN, code=ViolationCode.FOREIGN_SOCKET)
OF_OTHER_PEN = NameRule("", OTHER_PEN, grantable=False, code=ViolationCode.OTHER_SANDBOX)
CLOSED_NETWORK = NameRule("", NO_NETWORK, code=ViolationCode.NO_NETWORK)
CLOSED_NAMES = NameRule("", NO_NAMES, grantable=False, code=ViolationCode.NO_NETWORK)


class SocketCalls:
    def __init__(
        self,
        listener: int,
        proc: int,
        directory: int,
        records: ViolationLog,
        places: Collection[str],
        rules: Iterable[NameRule],
        granted: Collection[str],
        agents: Collection[str],
        gate_client: GateClient | None,
        covered: tuple[str, ...] = (),
    ) -> None:
        """`agents` are the granted sockets that are known to belong to an ssh agent.

        `covered`: directories that are empty only in the pen, if failed connects to them are to be recorded.
        """
        self.records = records
        self.covered = covered
        self.gate_client = gate_client
        """Leads to the gate; None if connections may not leave the pen."""
        self.descriptors = os.open("self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=proc)
        self.bound = BoundSockets(directory, self.descriptors)
        self.binding = BindThread(proc, places, self.bound)
        self.waiting = BlockingConnects(
            self.descriptors,
            lambda id_, error: respond(listener, id_, error=error),
            lambda id_: is_valid(listener, id_),
        )
        self.abstract_names = AbstractNames(lambda name: abstract_address(name) in self.waiting.targets)
        ends = {folded(rule.name.rstrip("/").rpartition("/")[2]): rule for rule in rules}
        self.protected = {**dict.fromkeys(COMPLETED_BY, COMPLETING), **ends}
        """By the last component: the directory does not matter, see `bind`."""
        self.granted = hold_inodes(granted)
        # By inode: the directory of a granted socket may have another name by the time of a connect.
        self.agents_granted = hold_inodes(path for path in granted if path in agents or is_agent(path))
        self.agents = AgentFilter(directory, self.descriptors)
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
                return self._connect_dns(caller, socket, address, peer)
            if peer and self._leaves_session(caller, socket, address, peer):
                return None
            if path is not None:
                inode = self._walk(caller, path)
                held = (socket, inode)
                target = self._reachable(caller, inode)
                if target in self.agents_granted and self._connect_agent(caller, held):
                    return None
                address = unix_address(b"%d" % inode)
                os.fchdir(self.descriptors)
            elif name := self._abstract_name(socket, address):
                self._require_own_name(caller, name)
        except OSError as error:
            close(held)
            if self.covered and path and error.errno == errno.ENOENT:
                self._record_covered(caller, path)
            return caller.refuse(error.errno or errno.EACCES)
        if not caller.is_waiting():
            return close(held)
        caller.affinity.unpin_self()  # the connect may start a thread
        look = partial(self._record_refused, caller, peer.port) if peer and is_loopback(peer.host) else None
        answer = self.waiting.connect(caller.id, caller.tag, held, address, target, look)
        return None if answer is None else caller.refuse(answer)

    def _connect_agent(self, caller: Caller, held: tuple[int, ...]) -> bool:
        """Whether the filter connected an ssh agent's socket; the call is answered then."""
        socket, inode = held
        path = os.readlink(str(inode), dir_fd=self.descriptors)
        (tag, program), pid = caller.identify(), caller.pid

        def refused(request: str) -> None:
            self.records.add(
                tag,
                f"{AGENT} {request}",
                path,
                NameRule("", ONLY_SIGNS, grantable=False, code=ViolationCode.AGENT),
                program,
                pid,
            )

        error = self.agents.connect(socket, tag, inode, refused) if caller.is_waiting() else errno.ESRCH
        if error is None:
            return False
        close(held)
        caller.refuse(error)
        return True

    def _record_refused(self, caller: Caller, port: int, socket: int, error: int) -> None:
        """Records a failed connect to loopback, since the program may have meant the host's own loopback."""
        is_refused = error == errno.ECONNREFUSED or (error == errno.EINPROGRESS and has_failed(socket))
        if is_refused and is_stream(socket) and self.records.has_room(caller.identify()[0]):
            self._record(
                caller, "connect", f"localhost:{port}", NameRule("", UNHEARD, code=ViolationCode.UNHEARD)
            )

    def _connect_dns(self, caller: Caller, socket: int, address: bytes, peer: Peer) -> None:
        """A datagram socket for DNS queries, which the warden does not see: the gate hears whose socket it
        is."""
        if not self.gate_client:
            self._record(caller, "resolve", f"{peer.host}:{DNS}", CLOSED_NAMES)
        if not self.gate_client and not is_inside(peer.host):
            raise OSError(errno.ENETUNREACH, NO_NETWORK)
        error = connect(socket, address) if caller.is_waiting() else errno.ESRCH
        if self.gate_client and not error:
            self.gate_client.announce_dns(caller.identify()[0], socket)
        os.close(socket)
        return caller.refuse(error)

    def _leaves_session(self, caller: Caller, socket: int, address: bytes, peer: Peer) -> bool:
        """Whether a connect leaves the session's own network; the call is answered then, now or later."""
        proxy = (peer.host, peer.port) == (GATE, PROXY_PORT)
        lent_host = self._lent_host(peer)
        if is_inside(peer.host) and not lent_host and not (proxy and self.gate_client):
            return False
        if not self.gate_client:
            if is_stream(socket):
                self._record(caller, "connect", f"{peer.host}:{peer.port}", CLOSED_NETWORK)
            raise OSError(errno.ENETUNREACH, NO_NETWORK)
        if not is_fresh_stream(socket, family_of(address)):
            return False
        self.gate_client.connect(
            PendingConnect(caller, socket, address, peer, to_proxy=proxy, lent_host=lent_host)
        )
        return True

    def _lent_host(self, peer: Peer) -> str:
        """The host name that this loopback port was lent under; empty if the port is the session's own."""
        if not self.gate_client or peer.port not in self.gate_client.lent_ports or not is_loopback(peer.host):
            return ""
        return self.gate_client.lent_ports[peer.port]

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
        """The copied address, and the socket; raises OSError as the kernel would answer."""
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
        """The path that this socket would take from an address; only a unix socket takes one."""
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
        base, unpin_self = AT_FDCWD, path
        for own_fds in OWN_DESCRIPTORS:
            if path.startswith(own_fds):
                number, _, below = path[len(own_fds) :].partition(b"/")
                if number.isdigit():
                    base, unpin_self = caller.descriptor(int(number)), below.lstrip(b"/")
                if not unpin_self:
                    return base
        if base == AT_FDCWD and not path.startswith(b"/"):
            base = caller.directory(AT_FDCWD)
            if base < 0:
                raise OSError(-base, "the working directory cannot be opened")
        inode = openat2(base, unpin_self, os.O_PATH, files.RESOLVE_NO_MAGICLINKS)
        if base != AT_FDCWD:
            os.close(base)
        if inode < 0:
            raise OSError(-inode, "it leads nowhere")
        return inode

    def _reachable(self, caller: Caller, inode: int) -> InodeKey:
        """The inode; raises OSError if the caller may not connect to it."""
        identity = identity_of(inode)
        is_of_another = self.bound.is_held_by_another(identity)
        if self.bound.has(identity) or (identity in self.granted and not is_of_another):
            return identity
        os.fchdir(self.descriptors)
        if not is_alive(inode):
            # Left by a program that has ended, or no socket at all: the kernel's own answer.
            raise ConnectionRefusedError(errno.ECONNREFUSED, "no process listens")
        rule = OF_OTHER_PEN if is_of_another else OF_NOBODY
        self._record(caller, "connect", os.readlink(str(inode), dir_fd=self.descriptors), rule)
        raise PermissionError(errno.EACCES, rule.why)

    def _record_covered(self, caller: Caller, path: bytes) -> None:
        place = os.path.realpath(os.fsdecode(path)) if path.startswith(b"/") else ""
        if place.startswith(tuple(f"{cover}/" for cover in self.covered)):
            self._record(caller, "connect", place, NameRule("", UNSHOWN, code=ViolationCode.UNSHOWN))

    def _absolute(self, directory: int, path: bytes) -> str:
        """For records."""
        here = os.readlink(str(directory), dir_fd=self.descriptors)
        return os.path.normpath(os.path.join(here, os.fsdecode(path)))

    def _record(self, caller: Caller, operation: str, path: str, rule: NameRule) -> None:
        tag, program = caller.identify()
        self.records.add(tag, operation, path, rule, program, caller.pid)


def hold_inodes(paths: Iterable[str]) -> dict[InodeKey, int]:
    """The inodes of sockets that exist, held open so that no number can be reused."""
    found = {}
    for path in paths:
        with suppress(OSError):
            inode = files.openat2(AT_FDCWD, path, os.O_PATH, resolve=files.RESOLVE_NO_SYMLINKS)
            found[identity_of(inode)] = inode
    return found
