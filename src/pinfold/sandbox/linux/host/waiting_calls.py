"""The host's part of a question: calls that wait in pens are handed to the broker, and done if it says so.

The life of a call (`Call`), by where it is kept:

| kept in | what it waits for | then |
|---|---|---|
| `heard` | the thread that hears | what is known is settled; else the broker gets it |
| the broker | a person, with all calls like it | it is settled as they said |
| `granting` | the granter | it is answered by what came of it |

All the while it is in `alive`: a call that is not there any more has been answered, or nothing waits for it.

A person, or a thousand programs, may take any time: no command waits that has nothing to do with it. What
waits for a person or for the granter has threads of its own, and none of them holds the lock meanwhile. A
person is not asked for what the user could not do either.
"""

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from pinfold.model.codes import ViolationCode
from pinfold.model.errors import ConfinementError
from pinfold.model.git_repositories import COMPLETING
from pinfold.model.policy import SandboxPolicy
from pinfold.sandbox.backend import Elevation, Ruling, StartRequest, Wanted
from pinfold.sandbox.linux.host.keeper_client import GranterClient, KeeperClient
from pinfold.sandbox.linux.host.warden_client import WardenClient
from pinfold.sandbox.linux.protocol.file_change import (
    CHANGED,
    COMPLETES,
    CheckChange,
    FileChange,
    MakeChange,
)
from pinfold.sandbox.linux.protocol.warden import OTHERWISE, CallAnswer, CallAsked, Denial
from pinfold.sandbox.poll_set import PollSet
from pinfold.sandbox.threads import Workers, begin_thread

COMMANDS = 1024
"""How many commands are known by their tags."""
UNDONE = {CHANGED: "something else is there by now than was asked about", COMPLETES: COMPLETING.why}
"""Why the granter has not made a change, where no errno says it."""


class Call(NamedTuple):
    """One that waits."""

    warden: WardenClient
    id: int
    change: FileChange

    @property
    def key(self) -> "Key":
        return self.warden, self.id


Key = tuple[WardenClient, int]
"""A call by its warden and its id there."""


class Elevating:
    """May be used from any thread."""

    def __init__(self, elevation: Elevation, keeper: KeeperClient) -> None:
        """Raises OSError if there is nothing to hear wardens by."""
        self.elevation = elevation
        self.granter = GranterClient(keeper)
        self.lock = threading.Lock()
        """Of commands, calls and wardens; held for moments."""
        self.heard: deque[tuple[WardenClient, SandboxPolicy, CallAsked]] = deque()
        """What a warden has told of a call, in the thread that read it."""
        self.alive: dict[Key, Callable[[], None] | None] = {}
        """Calls that a program waits for, and what withdraws each, once the broker has it."""
        self.requests: OrderedDict[int, StartRequest] = OrderedDict()
        """What runs, by its tag."""
        self.wardens: dict[int, WardenClient] = {}
        """Those that are listened to, by descriptor."""
        self.closed = False
        self.token = object()
        """Tells its commands from those that have the same tags in another session of a keeper."""
        self.granting = Workers("grant", 1)
        self.poll = PollSet()
        try:
            self.wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            try:
                self.poll.register(self.wake)
                begin_thread(self._hear, "hear")
            except OSError:
                os.close(self.wake)
                raise
        except OSError:
            self.poll.close()
            raise

    def attend(self, warden: WardenClient, policy: SandboxPolicy) -> None:
        """Hears a new pen's warden."""
        descriptor = warden.connection.fileno()

        def asked(call: CallAsked) -> None:
            self.alive[warden, call.id] = None
            self.heard.append((warden, policy, call))
            self._wake()

        warden.asked = asked
        warden.withdrawn = lambda id_: self._withdraw((warden, id_))
        with self.lock:
            self.wardens[descriptor] = warden
            self.poll.register(descriptor)

    def began(self, tag: int, request: StartRequest) -> None:
        with self.lock:
            self.requests[tag] = request
            if len(self.requests) > COMMANDS:
                self.requests.popitem(last=False)

    def close(self) -> None:
        with self.lock:
            self.closed = True
        self._wake()
        for key in list(self.alive):
            self._withdraw(key)
        self.granting.close()
        self.granter.close()

    def _wake(self) -> None:
        # Under the lock: once closed, its number may belong to another file.
        with self.lock, suppress(OSError):
            os.eventfd_write(self.wake, 1)

    # Hearing

    def _hear(self) -> None:
        while not self.closed:
            for descriptor, _ in self.poll.poll():
                if descriptor == self.wake:
                    with suppress(BlockingIOError):
                        os.eventfd_read(self.wake)
                    continue
                with self.lock:
                    warden = self.wardens.get(descriptor)
                if warden is None or not self._read(warden):
                    self._forget(descriptor)
            while self.heard:
                warden, policy, asked = self.heard.popleft()
                try:
                    self._take(warden, policy, asked)
                except Exception as error:  # noqa: BLE001  (a fault of ours is this call's no, not the end of all)
                    self._deny((warden, asked.id), Denial(f"the question failed: {error}"))
        self.poll.close()
        with self.lock:
            os.close(self.wake)
            self.wake = -1

    @staticmethod
    def _read(warden: WardenClient) -> bool:
        """False if its warden has ended, or its pen was closed."""
        try:
            warden.read()
        except ValueError:
            return False
        return not warden.ended and warden.connection.fileno() >= 0

    def _forget(self, descriptor: int) -> None:
        with self.lock:
            warden = self.wardens.pop(descriptor, None)
            self.poll.unregister(descriptor)
        for key in list(self.alive):
            if key[0] is warden:
                self._withdraw(key)

    def _withdraw(self, key: Key) -> None:
        """Nothing waits for it any more."""
        with self.lock:
            withdraw = self.alive.pop(key, None)
        if withdraw is not None:
            withdraw()

    def _take(self, warden: WardenClient, policy: SandboxPolicy, asked: CallAsked) -> None:
        change = asked.change
        wanted = Wanted(
            policy,
            self.requests.get(asked.tag),
            change.operation,
            change.paths,
            os.fsdecode(change.text),
            change.modes,
            asked.rule,
            asked.why,
            ViolationCode(asked.code),
            asked.is_git_writes,
            asked.program,
            asked.pid,
        )
        call = Call(warden, asked.id, change)
        ruling = self.elevation.known(wanted)
        if ruling is not None:
            self._settle(call, ruling)
        elif not self._is_withdrawn(call):
            self._put(call, asked.tag, wanted)

    def _put(self, call: Call, tag: int, wanted: Wanted) -> None:
        withdraw = self.elevation.put(
            (self.token, tag), wanted, lambda: self._obstacle(call), lambda ruling: self._settle(call, ruling)
        )
        with self.lock:
            is_alive = call.key in self.alive
            if is_alive:
                self.alive[call.key] = withdraw
        if not is_alive:
            withdraw()

    def _obstacle(self, call: Call) -> Ruling | None:
        """What would be in the way of a yes."""
        error, _ = self.granter.ask(CheckChange(call.change))
        if not error:
            return None
        return Ruling(False, UNDONE.get(error) or f"your own user may not write it: {os.strerror(error)}")

    # Doing

    def _settle(self, call: Call, ruling: Ruling) -> None:
        if ruling.allowed:
            try:
                self.granting.give(lambda: self._do(call))
            except RuntimeError as error:
                self._deny(call.key, Denial(f"it could not be done: {error}"))
        elif not self._is_withdrawn(call):
            code = ruling.code.value if ruling.code else ""
            self._deny(call.key, Denial(ruling.said, ruling.asked_at.value, code))

    def _do(self, call: Call) -> None:
        if self._is_withdrawn(call):
            return None
        try:
            error, made = self.granter.ask(MakeChange(call.change))
        except ConfinementError as gone:
            return self._deny(call.key, Denial(str(gone)))
        try:
            if error in UNDONE:
                self._deny(call.key, Denial(UNDONE[error]))
            else:
                self._answer(call.key, error, () if made is None else (made,))
        finally:
            if made is not None:
                os.close(made)

    def _answer(self, key: Key, error: int, descriptors: tuple[int, ...] = ()) -> None:
        self._withdraw(key)
        warden, id_ = key
        warden.answer(CallAnswer(id_, error), descriptors)

    def _deny(self, key: Key, denial: Denial) -> None:
        self._withdraw(key)
        warden, id_ = key
        warden.answer(CallAnswer(id_, OTHERWISE, denial))

    def _is_withdrawn(self, call: Call) -> bool:
        """Whether nothing waits for it: its caller has ended, its warden or the session has."""
        gone = self.closed or call.warden.ended
        return bool(gone) or call.key not in self.alive
