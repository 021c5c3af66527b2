"""Decides about MCP tools and browsers."""

from pinfold.model.decision import Decision, Reason, StepCode, Verdict
from pinfold.model.facts import Facts
from pinfold.model.request import CallTool, Connect, UseBrowser
from pinfold.model.settings import Settings
from pinfold.policy.connect import judge_connect
from pinfold.policy.reasons import by_setting, needs_person


def judge_tool(request: CallTool, settings: Settings, facts: Facts) -> Decision:
    """A tool runs without a person if it is on `mcp.allow`, or if MCP tools need no approval at all."""
    reason = needs_person(settings, "every tool call") or _tool(request, settings)
    asks = reason.verdict is Verdict.ASK and not settings.admin.enabled
    candidates = (f"{request.server}:{request.tool}",) if asks else ()
    return Decision(reason.verdict, (reason,), sandboxed=False, policy=facts.policy, candidates=candidates)


def _tool(request: CallTool, settings: Settings) -> Reason:
    called = f"{request.server}:{request.tool}"
    for index, entry in enumerate(settings.mcp.allow):
        if _names(entry, request):
            message, origin = (
                f"`{called}` matches `{entry}` in `mcp.allow`",
                settings.origin("mcp.allow", index),
            )
            return Reason(StepCode.MCP_ALLOW, message, Verdict.ALLOW, rule=entry, origin=origin)
    key = "protect.mcp_tools"
    if not settings.protect.mcp_tools:
        return by_setting(
            settings, StepCode.MCP_TOOLS, Verdict.ALLOW, "MCP tools need no approval", key, False
        )
    message = f"`{called}` is not in `mcp.allow`"
    return by_setting(
        settings, StepCode.MCP_TOOLS, Verdict.ASK, message, key, True, f"add `{called}` to `mcp.allow`"
    )


def _names(entry: str, request: CallTool) -> bool:
    """Entries are `server:tool`, `server:*`, `*:tool`, or a tool's bare name; `*:*` names nothing."""
    server, colon, tool = entry.rpartition(":")
    if not colon:
        return entry == request.tool
    return server in ("*", request.server) and tool in ("*", request.tool) and (server, tool) != ("*", "*")


def judge_browser(request: UseBrowser, settings: Settings, facts: Facts) -> Decision:
    """Browsers are off where the administrator says so, ask where the user does, and else run."""
    reason = (
        _switched_off(settings)
        or needs_person(settings, "every use of a browser")
        or _address(request.url, settings, facts)
        or _browser(f"browser {request.action}".rstrip(), settings)
    )
    return Decision(reason.verdict, (reason,), sandboxed=False, policy=facts.policy)


def _switched_off(settings: Settings) -> Reason | None:
    if settings.admin.browser_features:
        return None
    message, remedy = "your administrator has turned browser use off", "ask your administrator"
    return by_setting(
        settings, StepCode.BROWSER_FEATURES, Verdict.DENY, message, "admin.browser", False, remedy
    )


def _address(url: str, settings: Settings, facts: Facts) -> Reason | None:
    """A page that may not be connected to may not be opened either; what is allowed says nothing yet."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return Reason(
            StepCode.MALFORMED_URL, "the address is not a valid URL", Verdict.DENY, remedy="write it in full"
        )
    if not host:
        return None
    reason = judge_connect(Connect(host, port), settings, facts).reasons[0]
    return None if reason.verdict is Verdict.ALLOW else reason


def _browser(what: str, settings: Settings) -> Reason:
    protected = settings.protect.browser
    verdict = Verdict.ASK if protected else Verdict.ALLOW
    message = f"`{what}` needs a person's approval" if protected else f"`{what}` needs no approval"
    return by_setting(settings, StepCode.BROWSER, verdict, message, "protect.browser", protected)
