"""Decides whether a command may connect to a host.

The order is: malformed, denied, network off, person wanted, allowed, special address, `network.access`.
"""

from pinfold.model.decision import Decision, Reason, StepCode, Verdict
from pinfold.model.facts import Facts
from pinfold.model.hosts import canonical, special_kind
from pinfold.model.policy import SandboxPolicy
from pinfold.model.request import Connect
from pinfold.model.settings import NetworkAccess, Settings
from pinfold.policy.hosts import Pattern, matches, names_special
from pinfold.policy.network_scope import ANY_OTHER_PORT, ports_of, settings_under
from pinfold.policy.reasons import by_setting, needs_person, remedy_for


def judge_connect(request: Connect, settings: Settings, facts: Facts) -> Decision:
    """The decision about a connection to this host and port."""
    reason = reason_of(request, settings)
    return Decision(reason.verdict, (reason,), sandboxed=False, policy=facts.policy)


def check_host(host: str, port: int | None, settings: Settings, policy: SandboxPolicy) -> Decision:
    """The decision about a connection under a policy. Without a port, about the port that may do most."""
    settings = settings_under(policy, settings)
    ports = (port,) if port is not None else ports_of(settings)
    reasons = [reason_of(Connect(host, each), settings) for each in ports]
    reason = next((each for each in reasons if each.verdict is not Verdict.DENY), reasons[0])
    return Decision(reason.verdict, (reason,), sandboxed=False, policy=policy)


def reason_of(request: Connect, settings: Settings) -> Reason:
    """The reason that decides about this host and port."""
    try:
        host = canonical(request.host)
    except ValueError as error:
        return Reason(StepCode.MALFORMED_HOST, f"{error}", Verdict.DENY, remedy="write a plain host name")
    if not 0 < request.port < 65536:
        return Reason(
            StepCode.MALFORMED_HOST, f"{request.port} is not a port", Verdict.DENY, remedy="use 1 to 65535"
        )
    return (
        _listed(host, request.port, settings, "deny")
        or _switched_off(settings)
        or needs_person(settings, "every connection")
        or _listed(host, request.port, settings, "allow")
        or _special(host, request.port)
        or _by_access(host, request.port, settings)
    )


def _listed(host: str, port: int, settings: Settings, which: str) -> Reason | None:
    key, denies = f"network.{which}", which == "deny"
    step = StepCode.NETWORK_DENY if denies else StepCode.NETWORK_ALLOW
    for index, entry in enumerate(settings.network.deny if denies else settings.network.allow):
        if matches(entry, host, port) and (denies or not special_kind(host) or names_special(entry, host)):
            verdict, origin = Verdict.DENY if denies else Verdict.ALLOW, settings.origin(key, index)
            message = f"{_where(host, port)} matches `{entry}` in `{key}`"
            remedy = remedy_for(origin, f"change `{key}`") if denies else ""
            return Reason(step, message, verdict, rule=entry, origin=origin, remedy=remedy)
    return None


def _switched_off(settings: Settings) -> Reason | None:
    if settings.network.access is not NetworkAccess.NONE:
        return None
    message, key = "the network is switched off", "network.access"
    return by_setting(settings, StepCode.NETWORK_NONE, Verdict.DENY, message, key, "none")


def _special(host: str, port: int) -> Reason | None:
    kind = special_kind(host)
    if not kind:
        return None
    return Reason(
        StepCode.SPECIAL_ADDRESS,
        f"{host} is a {kind} address; it is blocked unless a `network.allow` entry names it",
        Verdict.DENY,
        remedy=_naming(host, port),
    )


def _by_access(host: str, port: int, settings: Settings) -> Reason:
    access = settings.network.access
    verdict = {NetworkAccess.ALL: Verdict.ALLOW, NetworkAccess.ASK: Verdict.ASK}.get(access, Verdict.DENY)
    message = (
        "every host is allowed"
        if verdict is Verdict.ALLOW
        else f"{_where(host, port)} is not in `network.allow`"
    )
    remedy = "" if verdict is Verdict.ALLOW else _naming(host, port)
    return by_setting(
        settings, StepCode.NETWORK_ACCESS, verdict, message, "network.access", str(access), remedy
    )


def _naming(host: str, port: int) -> str:
    return f"add `{_where(host, port)}` to `network.allow`"


def _where(host: str, port: int) -> str:
    """The host with its port; a request for a name alone has no port to show."""
    return str(Pattern(host, None if port == ANY_OTHER_PORT else port))
