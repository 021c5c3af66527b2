"""Whether a connection to a host may be made. The order is malformed, denied, allowed, then the setting."""

from pinfold.model.decision import Decision, Reason, Verdict
from pinfold.model.facts import Facts
from pinfold.model.request import Connect
from pinfold.model.settings import NetworkAccess, Settings
from pinfold.policy.hosts import canonical, matches, special_kind
from pinfold.policy.reasons import by_setting


def judge_connect(request: Connect, settings: Settings, facts: Facts) -> Decision:
    """Whether a connection to this host and port may be made."""
    reason = _reason(request, settings)
    return Decision(reason.verdict, (reason,), sandboxed=False, policy=facts.policy)


def _reason(request: Connect, settings: Settings) -> Reason:
    try:
        host = canonical(request.host)
    except ValueError as error:
        return Reason("malformed_host", f"{error}", Verdict.DENY, remedy="write the host's plain name")
    if not 0 < request.port < 65536:
        return Reason("malformed_host", f"{request.port} is no port", Verdict.DENY, remedy="use 1 to 65535")
    return (
        _listed(host, request.port, settings, "deny")
        or _switched_off(settings)
        or _listed(host, request.port, settings, "allow")
        or _special(host)
        or _by_access(host, request.port, settings)
    )


def _listed(host: str, port: int, settings: Settings, which: str) -> Reason | None:
    key = f"network.{which}"
    entries = settings.network.deny if which == "deny" else settings.network.allow
    entry = next((entry for entry in entries if matches(entry, host, port)), None)
    if entry is None:
        return None
    return Reason(
        f"network_{which}",
        f"{host}:{port} is on `{key}` as `{entry}`",
        Verdict.DENY if which == "deny" else Verdict.ALLOW,
        rule=entry,
        origin=settings.origin(key),
        remedy=f"change `{key}`" if which == "deny" else "",
    )


def _switched_off(settings: Settings) -> Reason | None:
    if settings.network.access is not NetworkAccess.NONE:
        return None
    said, key = "the network is switched off", "network.access"
    return by_setting(settings, "network_none", Verdict.DENY, said, key, "none")


def _special(host: str) -> Reason | None:
    kind = special_kind(host)
    if not kind:
        return None
    return Reason(
        "special_address",
        f"{host} is a {kind} address, which only a rule that names it opens",
        Verdict.DENY,
        remedy=f'add "{host}" to `network.allow`',
    )


def _by_access(host: str, port: int, settings: Settings) -> Reason:
    access = settings.network.access
    verdict = {NetworkAccess.ALL: Verdict.ALLOW, NetworkAccess.ASK: Verdict.ASK}.get(access, Verdict.DENY)
    said = "every host may be reached" if verdict is Verdict.ALLOW else f"no rule speaks of {host}:{port}"
    remedy = f'add "{host}" to `network.allow`'
    return by_setting(settings, "network_access", verdict, said, "network.access", str(access), remedy)
