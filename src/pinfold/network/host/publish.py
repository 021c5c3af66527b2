"""Ports of this machine's loopback that lead to servers inside: which ones, by the settings as they are now.

A port is published with the first command that is given it. It is taken back when neither the settings nor a
person's grant name it any more. The gate listens there and decides whom it lets through.
"""

import os
from _socket import socket
from _thread import allocate_lock
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from pinfold.model.settings import Control

if TYPE_CHECKING:
    from pinfold.network.host.host_rules import ConnectingSession


class Publishing:
    """May be used from any thread."""

    def __init__(
        self,
        session: "ConnectingSession",
        add: Callable[[str, socket], None],
        drop: Callable[[Iterable[str]], None],
    ) -> None:
        """`add` gives the gate a face and its listener, `drop` takes faces from it."""
        self._session, self._add, self._drop = session, add, drop
        self._lock = allocate_lock()
        self._published: set[int] = set()
        self._granted: set[int] = set()
        """Those that the settings did not name: a person granted them to a command."""
        self._taken: set[int] = set()
        """Ports that could not be published, and that the journal has a note about."""
        self._reach: Callable[[], socket] | None = None

    def publish(self, ports: Sequence[int], reach: Callable[[], socket]) -> None:
        """A port that another program has is tried again with each command."""
        self._reach = reach
        self._granted.update(set(ports).difference(self._session.settings.network.publish))
        self._withdraw()
        with self._lock:  # of two commands at once the second would find the first one's port taken
            for port in ports:
                if port not in self._published:
                    self._publish(port)

    def change(self) -> None:
        """The settings may be others."""
        if self._published:
            self._withdraw()

    def lead_in(self, port: int) -> socket:
        """A socket of the session's network, for a connection to a port."""
        self._withdraw()
        if self._reach is None or port not in self._published:
            raise PermissionError(f"port {port} is not published")
        return self._reach()

    def _publish(self, port: int) -> None:
        from pinfold.network.port_forward import listen_on

        self._published.add(port)
        try:
            for listener in listen_on(port):
                self._add(_face(port), listener)
        except OSError as error:
            self._published.discard(port)
            if port not in self._taken:
                self._taken.add(port)
                # `socket.create_server` puts the address into `strerror`, as Python writes it.
                why = os.strerror(error.errno) if error.errno else str(error)
                self._session.last_ledger.trouble(f"port {port} is not published: localhost:{port}: {why}")

    def _withdraw(self) -> None:
        """Takes back the ports that are not to lead in any more."""
        settings = self._session.settings
        networking = settings.admin.sandboxing_controls.sandbox_networking
        is_closed = networking is Control.ALWAYS_DISABLED
        kept = {*settings.network.publish, *(() if is_closed else self._granted)}
        with self._lock:
            gone = self._published - kept
            self._published &= kept
            if gone:
                self._drop({_face(port) for port in gone})


def _face(port: int) -> str:
    from pinfold.network.link_messages import PUBLISHED

    return f"{PUBLISHED}{port}"
