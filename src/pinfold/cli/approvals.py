"""`pinfold approvals list | revoke`: shows and removes remembered answers."""

import sys
from argparse import ArgumentParser, Namespace
from time import localtime, strftime, time
from typing import TYPE_CHECKING

from pinfold.cli.arguments import add_common
from pinfold.cli.output import print_json, print_sentence, short_path
from pinfold.model.decision import StepCode
from pinfold.model.errors import PinfoldError, PolicyError
from pinfold.model.escape_text import visible
from pinfold.model.permission import Answer, Capability, Reach

if TYPE_CHECKING:
    from pinfold.approval.memory import Remembered, Subject
    from pinfold.approval.store import Store

ABSENT = 1
"""Exit code of `revoke` with an id that does not exist."""
IN_FORCE, ENDED, STALE, GONE = "in force", "session ended", "stale", "no project"


def configure(parser: ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="action", required=True, metavar="list|revoke")
    listing = verbs.add_parser(
        "list", help="show every remembered answer, and whether it still applies", allow_abbrev=False
    )
    revoke = verbs.add_parser("revoke", help="forget answers, so that pinfold asks again", allow_abbrev=False)
    revoke.add_argument("ids", nargs="*", metavar="ID", help="an id that `list` shows")
    revoke.add_argument("--all", action="store_true", help="all answers; also removes an unreadable file")
    for verb in (listing, revoke):
        add_common(verb)


def run(args: Namespace) -> int:
    import os

    from pinfold.approval.store import Store
    from pinfold.state.directory import approvals_file

    store = Store(approvals_file(os.environ))
    return _list(args, store) if args.action == "list" else _revoke(args, store)


def _list(args: Namespace, store: "Store") -> int:
    answers = store.answers()
    if store.trouble:
        raise PinfoldError(store.trouble)
    states = _states(args, answers)
    if args.json:
        print_json([_as_json(each, states[each.id]) for each in answers])
    elif answers:
        _draw(answers, states)
    else:
        print_sentence("no answers are remembered: pinfold asks each time")
    return 0


def _revoke(args: Namespace, store: "Store") -> int:
    if args.all == bool(args.ids):
        raise PolicyError("give either ids, as `pinfold approvals list` shows them, or --all")
    known = {each.id for each in store.answers()}
    if store.trouble and not args.all:
        raise PinfoldError(store.trouble)
    missing = [each for each in args.ids if each not in known]
    wanted = known if args.all else known & set(args.ids)
    if not (store.remove_all() if args.all else store.remove(wanted)):
        raise PinfoldError(store.trouble)
    if args.json:
        print_json({"revoked": sorted(wanted), "missing": missing})
    else:
        for each in missing:
            print(f"pinfold: there is no remembered answer `{visible(each)}`", file=sys.stderr)
        if wanted or args.all:
            print(f"{len(wanted)} revoked")
    return ABSENT if missing else 0


def _states(args: Namespace, answers: "tuple[Remembered, ...]") -> dict[str, str]:
    """Whether each answer still applies: to the settings as they are now, and in a session that exists."""
    import os

    from pinfold.state.sessions import live_sessions

    alive = {session.id for session in live_sessions(os.environ)}
    now: dict[tuple[str, ...], str] = {}
    for roots in {each.subject.roots for each in answers}:
        now[roots] = _fingerprint(args, roots)
    states = {}
    for each in answers:
        found = now[each.subject.roots]
        is_over = each.answer is Answer.SESSION and each.session not in alive
        holds = ENDED if is_over else IN_FORCE
        states[each.id] = GONE if not found else holds if found == each.subject.fingerprint else STALE
    return states


def _fingerprint(args: Namespace, roots: tuple[str, ...]) -> str:
    """The fingerprint of the settings in these projects; empty where a project no longer exists."""
    import os

    from pinfold.session import Session

    if not roots or not all(map(os.path.isdir, roots)):
        return ""
    with Session(roots, settings=args.settings, cwd=roots[0]) as session:
        return session.fingerprint


def _as_json(answer: "Remembered", state: str) -> dict[str, object]:
    subject = answer.subject
    return {
        "id": answer.id,
        "answer": answer.answer,
        "state": state,
        "reach": answer.reach,
        "capability": subject.capability,
        "operation": subject.operation,
        "host": subject.host,
        "port": subject.port,
        "path": subject.path,
        "command": subject.command,
        "cwd": subject.cwd,
        "program": subject.program,
        "sandboxed": subject.sandboxed,
        "widening": subject.widening,
        "session": answer.session,
        "roots": subject.roots,
        "by": answer.by,
        "made": answer.made,
        "expires": answer.expires,
    }


def _draw(answers: "tuple[Remembered, ...]", states: dict[str, str]) -> None:
    from pinfold.cli.output import make_console, make_table, print_rich_table

    drawn = make_table("id", "answer", "state", "until", "what")
    for each in answers:
        drawn.add_row(each.id, str(each.answer), states[each.id], _until(each), _what(each))
    console = make_console()
    print_rich_table(console, drawn)
    if STALE in states.values():
        console.print("stale: the settings have changed since this answer; pinfold asks again")
    for session in dict.fromkeys(each.session for each in answers if states[each.id] == ENDED):
        console.print(f"session ended: the answer applies again after `Session(resume={session!r})`")


def _action(subject: "Subject") -> str:
    """The verb of what was granted: to write a path, or one other thing that can be done to it."""
    from pinfold.approval.wording import DONE
    from pinfold.policy.grants import is_write

    is_git = any(step == StepCode.GIT_WRITES for step, _, _ in subject.reasons)
    return "change" if is_git or is_write(subject.operation) else DONE.get(subject.operation, "change")


def _until(answer: "Remembered") -> str:
    if answer.expires is None:
        return "revoked"
    is_near = answer.expires - time() < 86400
    return strftime("%H:%M" if is_near else "%Y-%m-%d", localtime(answer.expires))


def _what(answer: "Remembered") -> str:
    subject = answer.subject
    by = "any command" if answer.reach is not Reach.COMMAND else f"`{visible(subject.command)}`"
    where = visible(short_path(subject.roots[0])) if subject.roots else ""
    match subject.capability:
        case Capability.CONNECT:
            return f"{by} may connect to {visible(subject.host)}:{subject.port}, in {where}"
        case Capability.WRITE:
            is_wide = answer.reach is Reach.DIRECTORY
            path = visible(short_path(subject.path.rpartition("/")[0] if is_wide else subject.path))
            return f"{by} may {'change what is in' if is_wide else _action(subject)} {path}, in {where}"
        case Capability.WIDEN:
            more = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in subject.widening)
            return f"run {by} with {visible(more)}, in {visible(short_path(subject.cwd))}"
    outside = "" if subject.sandboxed else " outside the sandbox"
    return f"run {by}{outside}, in {visible(short_path(subject.cwd))}"
