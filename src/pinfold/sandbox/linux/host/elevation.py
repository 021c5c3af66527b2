"""The host's part of a question: calls that wait in pens, joined, bounded, asked about and then done.

The life of a call (`Call`), by where it is kept:

| kept in | what it waits for | then |
|---|---|---|
| `heard` | the thread that hears | what is known is settled; else it joins its like, as one question |
| a question in `Command.waiting` | that fewer of the command's are open | a thread of `asking` has it |
| a question with such a thread | a person | it is settled as they said, with all of its like |
| `granting` | the granter | it is answered by what came of it |

All the while it is in `alive`: who is not there any more has been answered, or nobody waits for it.

Whatever a person, or a thousand programs, take their time with, no command waits that has nothing to do with
it: what waits for a person or for the granter has threads of its own, and nobody has the lock meanwhile.

- Like calls of a command are one question, and its answer holds for all of them, and for those that come
  later: a yes for this run until that has ended, and afterwards for those alone that wait for it.
- A command may have `MOST_OPEN` questions at a time, the others wait their turn; and `MOST_ASKED`: beyond, it
  hears no.
- Nobody is asked for what the user could not do either.
"""

import os
import threading
from collections import OrderedDict, deque
from contextlib import suppress
from typing import NamedTuple

from pinfold.model.codes import ViolationCode
from pinfold.model.errors import ConfinementError
from pinfold.model.git_repositories import COMPLETING
from pinfold.model.permission import ASKED_ENOUGH, MOST_ASKED, MOST_OPEN
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

ASKING = 32
"""How many questions of the session are asked at a time."""
COMMANDS = 1024
"""Of how many commands answers are remembered, and which they are."""
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


class Question:
    def __init__(self, wanted: Wanted, key: tuple[str, ...]) -> None:
        self.wanted, self.key = wanted, key
        self.calls: dict[Key, Call] = {}
        """Those that wait for it, and no others."""
        self.ruling: Ruling | None = None


class Command:
    """What a command has asked."""

    def __init__(self) -> None:
        self.questions: dict[tuple[str, ...], Question] = {}
        """But those that nobody waited for: whoever wants the same later is asked about anew."""
        self.asked = self.open = 0
        self.waiting: deque[Question] = deque()


class Elevating:
    """May be used from any thread."""

    def __init__(self, elevation: Elevation, keeper: KeeperClient) -> None:
        """Raises OSError if there is nothing to hear wardens by."""
        self.elevation = elevation
        self.granter = GranterClient(keeper)
        self.lock = threading.Lock()
        """Of commands, their questions and calls, and of wardens; held for moments."""
        self.heard: deque[tuple[WardenClient, SandboxPolicy, CallAsked]] = deque()
        """What a warden has told of a call, by whoever read it."""
        self.alive: dict[Key, Question | None] = {}
        """Calls that somebody waits for, and the question of each, once it has one."""
        self.requests: OrderedDict[int, StartRequest] = OrderedDict()
        """What runs, by its tag."""
        self.commands: OrderedDict[int, Command] = OrderedDict()
        """What they have asked, by the same."""
        self.wardens: dict[int, WardenClient] = {}
        """Who is listened to, by descriptor."""
        self.closed = False
        self.asking, self.granting = Workers("asking", ASKING), Workers("grant", 1)
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
        self.granting.close()
        self.asking.close()
        self.granter.close()

    def _wake(self) -> None:
        # Under the lock: once closed, its number may be a file of somebody else's.
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
        """Nobody waits for it any more."""
        with self.lock:
            question = self.alive.pop(key, None)
            if question is not None:
                question.calls.pop(key, None)

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
        if ruling is None:
            ruling = self._ruling_of_its_like(call, asked.tag, wanted)
        if ruling is not None:
            self._settle(call, ruling)

    def _ruling_of_its_like(self, call: Call, tag: int, wanted: Wanted) -> Ruling | None:
        """What was said of such a call; None if it waits now, with its like or as the first of them."""
        key = self.elevation.key(wanted)
        with self.lock:
            if self._is_withdrawn(call):
                return None
            command = self._command(tag)
            question = command.questions.get(key)
            if question and not self._has_lapsed(question):
                if question.ruling is None:
                    self._join(call, question)
                return question.ruling
            if command.asked >= MOST_ASKED:
                return Ruling(False, ASKED_ENOUGH)
            command.asked += 1
            question = command.questions[key] = Question(wanted, key)
            self._join(call, question)
            self._start(command, question)
            return None

    def _has_lapsed(self, question: Question) -> bool:
        ruling, request = question.ruling, question.wanted.request
        is_for_run = ruling is not None and ruling.ends_with_run
        return is_for_run and (request is None or self.elevation.is_over(request))

    def _join(self, call: Call, question: Question) -> None:
        """Preconditions: the lock is held, and somebody waits for the call."""
        question.calls[call.key] = call
        self.alive[call.key] = question

    def _command(self, tag: int) -> Command:
        """Preconditions: the lock is held."""
        if tag not in self.commands:
            done = [other for other, each in self.commands.items() if not each.open]
            if len(self.commands) >= COMMANDS and done:
                del self.commands[done[0]]
            self.commands[tag] = Command()
        return self.commands[tag]

    # Asking

    def _start(self, command: Command, question: Question) -> None:
        """Preconditions: the lock is held."""
        if command.open >= MOST_OPEN:
            command.waiting.append(question)
            return
        try:
            self.asking.give(lambda: self._ask(command, question))
        except RuntimeError:
            del command.questions[question.key]  # whoever wants the same later is asked about
            raise
        command.open += 1

    def _ask(self, command: Command, question: Question) -> None:
        ruling = None
        while ruling is None:
            try:
                calls = self._waiting(question)
                ruling = self._likely(calls[0]) if calls else None
                if calls and ruling is None:
                    ruling = self.elevation.ask(question.wanted, lambda: not self._waiting(question))
            except Exception as error:  # noqa: BLE001  (whatever went wrong, it is a no)
                ruling = Ruling(False, f"the question failed: {error}")
            with self.lock:
                calls = self._calls(question)
                if ruling is None and calls:
                    continue  # somebody has come since
                if ruling is None:
                    del command.questions[question.key]
                question.ruling = ruling = ruling or Ruling(False)
                question.calls = {}
                command.open -= 1
                if command.waiting:
                    self._start(command, command.waiting.popleft())
        for call in calls:
            self._settle(call, ruling)

    def _waiting(self, question: Question) -> list[Call]:
        with self.lock:
            return self._calls(question)

    def _calls(self, question: Question) -> list[Call]:
        """Preconditions: the lock is held."""
        return [call for call in question.calls.values() if not self._is_withdrawn(call)]

    def _likely(self, call: Call) -> Ruling | None:
        """What would be in the way of a yes."""
        error, _ = self.granter.ask(CheckChange(call.change))
        if not error:
            return None
        return Ruling(False, UNDONE.get(error) or f"you may not write it either: {os.strerror(error)}")

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
        """Whether nobody waits for it: its caller has ended, its warden or the session has."""
        gone = self.closed or call.warden.ended
        return bool(gone) or call.key not in self.alive
