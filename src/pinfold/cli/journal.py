"""`pinfold journal list | forget`: what was run, denied and asked, and how it ended."""

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from time import localtime, strftime, time
from typing import TYPE_CHECKING

from pinfold.cli.arguments import filled
from pinfold.cli.output import is_coloured, print_json, print_table, short_path
from pinfold.model.escape_text import visible

if TYPE_CHECKING:
    from pinfold.audit.history import Action

LAST = 20
LONGEST = 200
"""Characters of a cell of the table; `--json` prints everything."""
DAY = 86400
COLOURS = {
    **dict.fromkeys(("exit 0", "allow", "allowed", "once", "session", "always", "rule"), "green"),
    **dict.fromkeys(("refused", "deny", "no", "trouble", "failed"), "red"),
}


def configure(parser: ArgumentParser) -> None:
    verbs = parser.add_subparsers(dest="action", required=True, metavar="list|forget")
    listing = verbs.add_parser(
        "list", help="show what was run, denied and asked, newest last", allow_abbrev=False
    )
    listing.add_argument(
        "--session", metavar="ID", type=filled, help="only this session; `pinfold status` shows the ids"
    )
    listing.add_argument(
        "--last",
        metavar="N",
        type=_count,
        default=LAST,
        help=f"how many entries; 0 for all; the default is {LAST}",
    )
    forget = verbs.add_parser("forget", help="delete old entries", allow_abbrev=False)
    forget.add_argument(
        "--older-than",
        metavar="AGE",
        type=_age,
        required=True,
        help="delete entries older than this, such as 90d or 12h",
    )
    for verb in (listing, forget):
        verb.add_argument("--json", action="store_true", help="answer as JSON")


def run(args: Namespace) -> int:
    return _list(args) if args.action == "list" else _forget(args)


def _list(args: Namespace) -> int:
    from pinfold.audit.history import EVERY, actions
    from pinfold.state.directory import journal_file

    found = actions(journal_file(os.environ), args.last or EVERY, args.session)
    if args.json:
        print_json([_as_json(each) for each in found])
    elif found:
        _draw(found)
    else:
        whose = f" has no entries of a session `{visible(args.session)}`" if args.session is not None else ""
        print(f"the journal {visible(short_path(journal_file(os.environ)))}{whose or ' is empty'}")
    return 0


def _forget(args: Namespace) -> int:
    from pinfold.audit.history import forget
    from pinfold.state.directory import journal_file

    gone = forget(journal_file(os.environ), time() - args.older_than)
    if args.json:
        print_json({"forgotten": gone})
    else:
        print(f"{gone} entries deleted")
    return 0


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise ArgumentTypeError(f"`{text}` is not a number from 0 to 999999999")
    return int(text)


def _age(text: str) -> float:
    from pinfold.settings.values import parse_duration

    try:
        return parse_duration(text)
    except ValueError:
        raise ArgumentTypeError(f"`{text}` is not a duration such as 90d or 12h") from None


def _as_json(action: "Action") -> dict[str, object]:
    entry = action.entry
    row = {
        "id": entry.id,
        "at": entry.at,
        "session": entry.session,
        "kind": entry.kind,
        "about": entry.about,
    }
    return {**row, "data": entry.data, "end": action.end}


def _draw(found: "list[Action]") -> None:
    from pinfold.state.sessions import live_sessions

    alive = {session.id for session in live_sessions(os.environ)}
    rows: list[tuple[str, ...]] = [
        (_when(each.entry.at), visible(each.entry.session), _outcome(each, alive), _what(each))
        for each in found
    ]
    if not os.isatty(1):  # one line per entry, for programs such as grep
        print_table(rows)
        return
    from rich.text import Text

    from pinfold.cli.output import make_console, make_table, print_rich_table

    drawn = make_table("when", "session", "outcome", "what")
    colours = is_coloured()
    for when, session, outcome, what in rows:
        style = COLOURS.get(outcome, "yellow") if colours else ""
        drawn.add_row(when, session, Text(outcome, style=style), what)
    print_rich_table(make_console(), drawn)


def _when(at: float) -> str:
    is_near = time() - at < DAY / 2
    return strftime("%H:%M:%S" if is_near else "%Y-%m-%d %H:%M", localtime(at))


def _outcome(action: "Action", alive: set[str]) -> str:
    data, end = action.entry.data, action.end
    match action.entry.kind:
        case "run" if end is None:
            return "running" if action.entry.session in alive else "unfinished"
        case "run":
            return _ending(end or {})
        case "connect":
            return visible(str(data.get("verdict", "")))
        case "elevation":
            return visible(str(data.get("answer", "")))
        case "file":
            return "allowed"
    return visible(action.entry.kind)


def _ending(end: dict[str, object]) -> str:
    if "error" in end:
        return "failed"
    if end.get("timed_out") or end.get("cancelled"):
        return "timed out" if end.get("timed_out") else "cancelled"
    signal = end.get("signal")
    return f"signal {signal}" if signal else f"exit {end.get('exit_code')}"


def _what(action: "Action") -> str:
    data = action.entry.data
    command, cwd = str(data.get("command", "")) or action.command, str(data.get("cwd", ""))
    if "host" in data:
        text = f"connect to {data['host']}:{data.get('port')}"
    elif "paths" in data:
        paths = (short_path(str(path)) for path in data["paths"])
        text = " ".join([str(data.get("operation", "")), *paths])
    elif action.entry.kind == "forgotten":
        text = f"the {data['rows']} oldest entries, until {_when(data['until'])}: `journal.size`"
    elif "tool" in data:
        text = f"{data['tool']} {data.get('path', '')}"
    else:
        text, command = command or str(data.get("error", "")), ""
    text = _cut(text)
    text += f", by `{_cut(command)}`" if command else ""
    text += f", in {visible(short_path(cwd))}" if cwd else ""
    return text + _refused((action.end or {}).get("violations", ()))


def _refused(violations: Sequence[Mapping[str, object]]) -> str:
    if not violations:
        return ""
    first, more = violations[0], len(violations) - 1
    what = _cut(f"{first.get('operation', '')} {short_path(str(first.get('path', '')))}".rstrip())
    return f"; denied {what}" + (f" and {more} more" if more else "")


def _cut(full: str) -> str:
    text = visible(full)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
