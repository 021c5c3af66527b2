"""What an agent's person may be asked to grant for the rest of a conversation, as the parameters of a
request.

It comes from what a line was denied, or from the words of `pinfold request`.
"""

import os
from argparse import ArgumentError, ArgumentParser
from collections.abc import Mapping, Sequence

from pinfold.approval.question_limits import too_many
from pinfold.model.decision import Widening
from pinfold.model.errors import PinfoldError
from pinfold.model.violation import Violation
from pinfold.policy.explain_violation import sufficient_policy
from pinfold.policy.grants import GIT_WRITES, is_too_much
from pinfold.session import Session
from pinfold.session.permission_requests import names_beyond

GrantRequest = Mapping[str, object]
MOST_NAMED = 20
USAGE = "`pinfold request --git-writes | --host H | --write P | --read P`"


def request_for_denied(session: Session, denied: Sequence[Violation]) -> GrantRequest:
    """What would have allowed these, as far as a person may grant it: a whole home is too much."""
    lists: dict[str, dict[str, None]] = {"write": {}, "read": {}, "hosts": {}}
    git_writes = False
    context = session.grant_context() if denied else None
    for each in denied:
        policy = sufficient_policy([each], os.path.exists)
        if policy is None or context is None or policy.unix_sockets:
            continue
        places = policy.additional_readwrite_paths
        lists["write"] |= dict.fromkeys(path for path in places if not is_too_much(path, context))
        lists["read"] |= dict.fromkeys(policy.additional_readonly_paths)
        lists["hosts"] |= dict.fromkeys(policy.network.allow or ())
        git_writes |= policy.block_git_writes is False
    request: dict[str, object] = {name: tuple(values) for name, values in lists.items() if values}
    return {**request, "git_writes": True} if git_writes else request


FIELDS = {"network": "hosts", "additional_readonly_paths": "read", "additional_readwrite_paths": "write"}
"""A field of a policy, and what a request calls it."""


def request_for(wanted: Sequence[Widening]) -> GrantRequest:
    """A request for exactly this."""
    request: dict[str, object] = {}
    for each in wanted:
        if each == GIT_WRITES:
            request["git_writes"] = True
        elif name := FIELDS.get(each.field):
            request[name] = (*_paths(request, name), each.value)
    return request


def together(one: GrantRequest, other: GrantRequest) -> GrantRequest:
    """Both requests as one."""
    found: dict[str, object] = {**one, **other}
    for name in FIELDS.values():
        if both := dict.fromkeys((*_paths(one, name), *_paths(other, name))):
            found[name] = (*both,)
    return found


def _paths(request: GrantRequest, name: str) -> tuple[str, ...]:
    found = request.get(name, ())
    return found if isinstance(found, tuple) else ()


def parse_request(words: Sequence[str], cwd: str) -> GrantRequest:
    """What `pinfold request ...` asks for. Raises `PinfoldError` for words that make no request."""
    parser = ArgumentParser("pinfold request", add_help=False, exit_on_error=False)
    add_request_arguments(parser)
    try:
        args, rest = parser.parse_known_args(list(words))
    except ArgumentError as error:
        raise PinfoldError(f"pinfold request: {error}; give {USAGE}") from None
    if rest or not (args.git_writes or args.host or args.write or args.read):
        raise PinfoldError(f"pinfold request: give {USAGE}")

    def placed(paths: list[str]) -> tuple[str, ...]:
        return tuple(path if path.startswith("~") else os.path.join(cwd, path) for path in paths)

    request = {"git_writes": args.git_writes, "hosts": tuple(args.host), "why": args.why}
    return {**request, "write": placed(args.write), "read": placed(args.read)}


def add_request_arguments(parser: ArgumentParser) -> None:
    """Adds the arguments that say what is asked for."""
    parser.add_argument("--git-writes", action="store_true", help="git may write in the project's repository")
    parser.add_argument("--host", metavar="HOST", action="append", default=[], help="a host to connect to")
    parser.add_argument("--write", metavar="PATH", action="append", default=[], help="a path to write")
    parser.add_argument("--read", metavar="PATH", action="append", default=[], help="a hidden path to read")
    parser.add_argument("--why", metavar="TEXT", default="", help="what it is for; shown in the question")


def names_to_ask(session: Session, request: GrantRequest) -> tuple[str, ...]:
    """What a person would be shown of it; empty where there is nothing to ask, or too much to be shown."""
    names = names_beyond(session, request) if request else ()
    return () if len(names) > MOST_NAMED or too_many(len(names)) else names
