"""The sessions of agents' conversations: one for each, warm from its first line to its end.

A conversation is an agent and the id that the agent gives it. Its session keeps what its lines leave:
processes, loopback, /tmp, and what was granted. It ends when the agent says so, when the agent's process
has ended, or when neither a command nor a process of it has run for `sessions.idle`.

The id of each session is written down. A service that starts again resumes it, with its grants, never
wider.

A session that a person has given a name (`pinfold run --session NAME`) is held like one of an agent without a
name (`NAMED`). It ends when its user ends it, or when it has been idle.
"""

import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from time import monotonic

from msgspec import DecodeError, Struct, field, json
from msgspec.structs import replace

from pinfold.approval import Approver, is_there
from pinfold.model.codes import AskedAt
from pinfold.model.errors import PinfoldError, PolicyError
from pinfold.model.escape_text import quoted, visible
from pinfold.model.load_structs import ready
from pinfold.model.permission import Answer, PermissionNeeded, Reply
from pinfold.model.violation import Violation
from pinfold.service.agent_process import agent_above, has_ended, has_terminal, shows_dialogs
from pinfold.session import Session
from pinfold.session.permission_requests import Asked, ask_for_permission, named
from pinfold.state.conversation_tmp import (
    conversation_record,
    conversations_directory,
    forget_old_conversations,
    remove_scratch,
    scratch_directory,
    sweep_scratch,
)
from pinfold.state.directory import write_private

Environ = Mapping[str, str]
OpenSession = Callable[[str, str, tuple[str, ...], Environ, "Conversation", str], Session]
"""Opens the session of an agent's conversation, in these projects, with the conversation and its `terminals`
among its approvers. The last argument is the id of the session to resume, or empty.
"""
NAMED = ""
"""In place of an agent, where a person has named the session."""
LARGEST = 1 << 20
ROUND = 20.0
"""Seconds between looks for idle conversations."""
MOST = 256
"""Conversations that are held at a time; beyond that the one that has been idle for longest ends."""
STRIPES = 64
MOST_LINES = 64
"""Lines of a conversation of which it is known what they were denied."""
WITH_DIALOGS = frozenset(["cursor", "pi"])
"""Agents that ask a person wherever they ask our hooks for a question: in an editor, or by their own word."""


class GrantOffer(Struct, frozen=True):
    """What a line is to be granted once the agent's person says yes to it: the agent then runs the line."""

    request: Mapping[str, object] = field(name="wish")  # as records of earlier versions name it
    """As `permission_requests.ask_for_permission` takes it."""
    names: tuple[str, ...]
    """What the person was shown, as `permission_requests.names_beyond` tells it."""
    turn: str
    """The person's words that it was offered in; a later turn withdraws it."""
    is_request: bool = False
    """Whether the line only asks for it, and has nothing to run."""
    token: str = ""
    """The word in the line that was put beside the question: the same line from another call takes nothing.
    Empty where the agent lets no hook change a line that it asks about."""
    is_shown: bool = True
    """Whether the agent's person was shown it. If not, the page of `pinfold web` asks when the line runs."""


class SessionOptions(Struct, frozen=True):
    """What a session is made with, besides its projects."""

    settings: str | None = None
    """A file to use in place of the user's own."""
    overrides: dict[str, object] = {}


class ConversationRecord(Struct, frozen=True):
    """What is kept of a conversation, for a service that starts again."""

    session: str
    granted: tuple[GrantOffer, ...] = ()
    agent: str = ""
    id: str = ""
    options: SessionOptions = SessionOptions()


class KnownSession(Struct, frozen=True):
    """A session that is held or can be resumed."""

    name: str
    """As a person has named it; empty for an agent's conversation."""
    agent: str
    conversation: str
    session: str
    projects: tuple[str, ...]
    commands: int
    """How many run in it."""
    is_held: bool
    """Whether it is there now: else it is resumed with its next command."""

    @property
    def key(self) -> tuple[str, str]:
        return self.agent, self.name or self.conversation


class Terminals:
    """The terminals of commands that run in a session now: each question is put at the latest of them."""

    name = "the person at the terminal"
    asked_at = AskedAt.TERMINAL

    def __init__(self) -> None:
        self._beside: list[Approver] = []

    @contextmanager
    def beside(self, one: Approver) -> Iterator[None]:
        self._beside.append(one)
        try:
            yield
        finally:
            self._beside.remove(one)

    def _found(self) -> Approver | None:
        return next((each for each in reversed(self._beside) if is_there(each)), None)

    def is_there(self) -> bool:
        return self._found() is not None

    def __call__(self, question: PermissionNeeded) -> Answer | Reply | None:
        found = self._found()
        return found(question) if found else None

    def withdraw(self, question: PermissionNeeded) -> None:
        for each in list(self._beside):
            if takes_back := getattr(each, "withdraw", None):
                takes_back(question)


class Conversation:
    """One conversation's session, and an approver of it. May be used from any thread."""

    name = "the person, as the agent asked"

    session: Session

    def __init__(self, agent: str, id: str, options: SessionOptions) -> None:
        self.agent, self.id, self.options = agent, id, options
        self.terminals = Terminals()
        self.agents: dict[int, int] = {}
        """The agent's processes: their numbers, and the descriptors that tell their ends."""
        self.used = monotonic()
        self.running = 0
        self.lock = threading.Lock()
        self.denied: dict[tuple[str, str], tuple[Violation, ...]] = {}
        """By a line and its directory: what its last run was denied."""
        self.offers: dict[tuple[str, str], GrantOffer] = {}
        self.granted: list[GrantOffer] = []
        """What has been granted for the conversation, in this order."""
        self.rules: Mapping[str, object] = {}
        """The agent's own rules that are in force in the session, as values of settings."""
        self._granting = threading.Lock()
        self._now: GrantOffer | None = None
        """What is granted at the moment."""

    @property
    def is_named(self) -> bool:
        return self.agent == NAMED

    def known(self) -> KnownSession:
        name, conversation = (self.id, "") if self.is_named else ("", self.id)
        held = self.session
        return KnownSession(name, self.agent, conversation, held.id, held.roots, self.running, is_held=True)

    def __enter__(self) -> Session:
        with self.lock:
            self.running += 1
        return self.session

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.running -= 1
            self.used = monotonic()

    def note(self, line: str, cwd: str, denied: tuple[Violation, ...]) -> None:
        """Remembers what a line's last run was denied."""
        with self.lock:
            self.denied.pop((line, cwd), None)
            if denied:
                self.denied[line, cwd] = denied
                if len(self.denied) > MOST_LINES:
                    del self.denied[next(iter(self.denied))]

    def offer(self, line: str, cwd: str, offer: GrantOffer) -> None:
        with self.lock:
            self.offers[line, cwd] = offer
            if len(self.offers) > MOST_LINES:
                del self.offers[next(iter(self.offers))]

    def take_offer(self, line: str, cwd: str, token: str) -> GrantOffer | None:
        """The offer for a line, for its one run."""
        with self.lock:
            found = self.offers.get((line, cwd))
            return self.offers.pop((line, cwd)) if found and found.token == token else None

    def withdraw(self, line: str, cwd: str) -> None:
        """Forgets the offer for a line."""
        with self.lock:
            self.offers.pop((line, cwd), None)

    def token_of(self, line: str, cwd: str) -> str:
        """The word that a line needs to take its offer."""
        with self.lock:
            found = self.offers.get((line, cwd))
            return found.token if found else ""

    def obey(self, rules: Mapping[str, object]) -> None:
        """Puts the agent's own rules in force, in place of those it had before."""
        with self.lock:
            if rules == self.rules:
                return
            self.rules = rules
        none: dict[str, object] = {"commands": {"deny": [], "ask": []}}
        self.session.change(dict(rules) or none)

    def grant(self, offer: GrantOffer) -> Asked:
        """Grants what was offered, as far as the session's policy allows that by now."""
        with self._granting:
            self._now = offer if offer.is_shown else None
            try:
                asked = ask_for_permission(self.session, offer.request)
            finally:
                self._now = None
        if asked.is_granted:
            self.granted.append(replace(offer, is_shown=True))
        return asked

    def __call__(self, question: PermissionNeeded) -> Answer | None:
        """An approver of the session: yes to what the agent's person was shown and said yes to, or what is
        left of it to be granted."""
        offer, wanted = self._now, {named(each) for each in question.decision.widening}
        is_offered = offer is not None and bool(wanted) and wanted <= {*offer.names}
        return Answer.SESSION if is_offered and question.operation == "request_permission" else None

    @staticmethod
    def is_there() -> bool:
        """No call waits for it: it answers only what was asked before."""
        return False

    def begin_turn(self, turn: str) -> None:
        """Withdraws what was offered in earlier turns: a person who had said yes would have seen it run."""
        with self.lock:
            self.offers = {key: offer for key, offer in self.offers.items() if offer.turn == turn}

    def follow(self, agent: int) -> bool:
        """Lets it end with this process of the agent; whether that is news."""
        with self.lock, suppress(OSError):
            if agent and agent not in self.agents:
                self.agents[agent] = os.pidfd_open(agent)
                return True
        return False

    def is_attended(self, agent: str) -> bool:
        """Whether a question in the agent's dialog is one that a person sees, as far as can be told: an agent
        that was started without a terminal, or to print one answer, has no dialog."""
        return agent in WITH_DIALOGS or any(map(shows_dialogs, list(self.agents)))

    @property
    def has_person(self) -> bool:
        """Whether a process of the agent has a terminal, so that a person can end what takes too long."""
        return any(map(has_terminal, list(self.agents)))

    def drop_agents(self, ended: set[int]) -> bool:
        """Forgets the agent's processes with these descriptors; whether the last of them has ended."""
        with self.lock:
            # A number may have been another process's when it was polled.
            gone = [agent for agent, handle in self.agents.items() if handle in ended and has_ended(handle)]
            for agent in gone:
                os.close(self.agents.pop(agent))
            return bool(gone) and not self.agents

    def is_late(self) -> bool:
        """Whether neither a command nor a process has run in it for as long as the settings say."""
        idle = self.session.settings.sessions.idle
        is_idle = idle is not None and not self.running and monotonic() - self.used >= idle
        return is_idle and not self.session.has_processes

    def close(self) -> None:
        self.session.close()
        with self.lock:
            for handle in self.agents.values():
                os.close(handle)
            self.agents.clear()


class Conversations:
    """May be used from any thread."""

    def __init__(self, open_session: OpenSession, environ: Environ) -> None:
        self._open_session = open_session
        self._environ = dict(environ)
        forget_old_conversations(environ)
        sweep_scratch(environ)
        self._lock = threading.Lock()
        self._changing = [threading.Lock() for _ in range(STRIPES)]
        """One is held while a conversation is opened or ended: one that ends leaves nothing for the next one
        of its name to find, and takes nothing of that one with it."""
        self._held: dict[tuple[str, str], Conversation] = {}
        self._wake, self._told = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        threading.Thread(target=self._watch, name="pinfold-conversations", daemon=True).start()

    def __bool__(self) -> bool:
        """Whether any is held."""
        return bool(self._held)

    def find(self, agent: str, id: str) -> Conversation | None:
        with self._lock:
            return self._held.get((agent, id))

    def named(
        self, name: str, roots: tuple[str, ...], environ: Environ, options: SessionOptions
    ) -> Conversation:
        """The session of this name or id, opened or resumed if it is not held. Raises where it was made with
        other options than these."""
        key = self._found_by(name) or (NAMED, name)
        found = self.of(*key, roots, environ, 0, options)
        if options not in (SessionOptions(), found.options):
            raise PolicyError(
                f"the session `{visible(name)}` was made with other options",
                help=f"leave them out, or end it first: pinfold sessions end {quoted(name)}",
            )
        return found

    def _found_by(self, name: str) -> tuple[str, str] | None:
        """The key of a session by its name, or by its id."""
        known = self.known()
        if any(each.name == name for each in known):
            return NAMED, name
        return next((each.key for each in known if each.session == name), None)

    def known(self) -> list[KnownSession]:
        """The sessions that are held, and those that can be resumed."""
        with self._lock:
            held = list(self._held.values())
        there = {each.session.id for each in held}
        others = [each for each in resumable(self._environ) if each.session not in there]
        return [*(each.known() for each in held), *others]

    def end_named(self, name: str) -> None:
        """Ends the session of this name or id, with all that runs in it; it cannot be resumed."""
        if key := self._found_by(name):
            self.end(*key)

    def of(
        self,
        agent: str,
        id: str,
        roots: tuple[str, ...],
        environ: Environ,
        pid: int,
        options: SessionOptions = SessionOptions(),  # noqa: B008  (it is frozen)
    ) -> Conversation:
        """The conversation, opened or resumed if it is not held, with these projects in it. `pid` is a
        process that the agent has started. A new session is made with the `options`."""
        key = agent, id
        is_new = False
        with self._changing_of(key):
            found = self.find(agent, id)
            if found is None or found.session.is_closed:
                found = self._opened(agent, id, roots, environ, options)
                with self._lock:
                    self._held[key] = found
                is_new = True
            found.used = monotonic()
            if agent != NAMED:
                scratch_directory(agent, id, self._environ)  # a person may have emptied /tmp
            for root in roots:
                found.session.add_project(root)
            if found.follow(agent_above(pid)):
                os.write(self._told, b"w")  # the watcher polls it from now on
        if is_new:
            self._make_room()
        return found

    def _changing_of(self, key: tuple[str, str]) -> threading.Lock:
        return self._changing[hash(key) % STRIPES]

    def end(self, agent: str, id: str, still: Callable[[], bool] = lambda: True) -> None:
        """Ends a conversation, with all that runs in it, if it is `still` to be ended."""
        with self._changing_of((agent, id)):
            if not still():
                return
            with self._lock:
                found = self._held.pop((agent, id), None)
            if found is not None:
                found.close()
            remove_scratch(agent, id, self._environ)
            with suppress(OSError):
                os.unlink(self._record(agent, id))

    def close(self) -> None:
        for key in list(self._held):
            with self._lock:
                found = self._held.pop(key, None)
            if found is not None:
                found.close()  # its record stays, so that it can be resumed

    def _opened(
        self, agent: str, id: str, roots: tuple[str, ...], environ: Environ, options: SessionOptions
    ) -> Conversation:
        found = Conversation(agent, id, options)
        if known := _read(self._record(agent, id)):
            with suppress(PinfoldError, ValueError):  # what cannot be restored begins anew, without grants
                found.options = known.options
                found.session = self._open_session(agent, id, (), environ, found, known.session)
                for offer in known.granted:
                    found.grant(offer)
                with suppress(OSError):
                    os.utime(self._record(agent, id))  # in use: `forget_old_conversations` leaves it
                return found
        found.options = options
        found.session = self._open_session(agent, id, roots, environ, found, "")
        self.keep(agent, id, found)
        return found

    def keep(self, agent: str, id: str, held: Conversation) -> None:
        """Writes down what a later service needs to resume it. What cannot be written begins anew then."""
        kept = ConversationRecord(held.session.id, tuple(held.granted), agent, id, held.options)
        with suppress(OSError):
            write_private(self._record(agent, id), json.encode(kept))

    def _record(self, agent: str, id: str) -> str:
        return conversation_record(agent, id, self._environ)

    def _make_room(self) -> None:
        with self._lock:
            idle = [(each.used, key) for key, each in self._held.items() if not each.running]
            late = min(idle)[1] if len(self._held) > MOST and idle else None
        if late:
            self.end(*late)

    def _watch(self) -> None:
        while True:
            poll = select.poll()
            poll.register(self._wake, select.POLLIN)
            with self._lock:
                held = list(self._held.items())
            for _, each in held:
                for handle in list(each.agents.values()):
                    poll.register(handle, select.POLLIN)
            ready = {number for number, _ in poll.poll(ROUND * 1000)}
            if self._wake in ready:
                os.read(self._wake, 1 << 12)
            for key, each in held:
                with suppress(
                    PinfoldError, OSError
                ):  # settings that cannot be read; the next round tries again
                    if each.drop_agents(ready):
                        self.end(*key, partial(self._is_left, key, each))
                    elif each.is_late():
                        self.end(*key, each.is_late)

    def _is_left(self, key: tuple[str, str], each: Conversation) -> bool:
        """Whether it is held, and no process of an agent has come to it."""
        return self.find(*key) is each and not each.agents


def resumable(environ: Environ) -> list[KnownSession]:
    """The sessions that a service can resume, the latest first."""
    directory = conversations_directory(environ)
    try:
        paths = [(each.stat().st_mtime, each.path) for each in os.scandir(directory)]
    except OSError:
        return []
    records = [_read(path) for _, path in sorted(paths, reverse=True)]
    return [_resumable(each) for each in records if each and each.id]


def forget(name: str, environ: Environ) -> None:
    """Where no service runs: the session of this name or id cannot be resumed any more."""
    for each in resumable(environ):
        if name in (each.name, each.session):
            with suppress(OSError):
                os.unlink(conversation_record(*each.key, environ))


def _read(path: str) -> ConversationRecord | None:
    try:
        with open(path, "rb") as file:
            return json.decode(file.read(LARGEST), type=ready(ConversationRecord))
    except (OSError, ValueError, DecodeError):
        return None


def _resumable(kept: ConversationRecord) -> KnownSession:
    name, conversation = (kept.id, "") if kept.agent == NAMED else ("", kept.id)
    return KnownSession(name, kept.agent, conversation, kept.session, (), 0, is_held=False)
