"""MCP tools and browsers: the same verdicts for what is no command and no file."""

from pinfold.model.decision import Decision, Reason, Verdict
from pinfold.model.facts import Facts
from pinfold.model.request import CallTool, UseBrowser
from pinfold.model.settings import Settings
from pinfold.policy.reasons import by_setting, needs_person


def judge_tool(request: CallTool, settings: Settings, facts: Facts) -> Decision:
    """A tool runs without a person if it is on `mcp.allow`, or if tools are not protected at all."""
    reason = needs_person(settings, "every tool's call") or _tool(request, settings)
    asks = reason.verdict is Verdict.ASK and not settings.admin.enabled
    candidates = (f"{request.server}:{request.tool}",) if asks else ()
    return Decision(reason.verdict, (reason,), sandboxed=False, policy=facts.policy, candidates=candidates)


def _tool(request: CallTool, settings: Settings) -> Reason:
    called = f"{request.server}:{request.tool}"
    entry = next((entry for entry in settings.mcp.allow if _names(entry, request)), None)
    if entry is not None:
        said = f"`{called}` is on the list of tools as `{entry}`"
        return Reason("mcp_allow", said, Verdict.ALLOW, rule=entry, origin=settings.origin("mcp.allow"))
    key = "protect.mcp_tools"
    if not settings.protect.mcp_tools:
        return by_setting(settings, "mcp_tools", Verdict.ALLOW, "tools are not protected", key, False)
    said = f"`{called}` is not on the list of tools"
    return by_setting(settings, "mcp_tools", Verdict.ASK, said, key, True, f'add "{called}" to `mcp.allow`')


def _names(entry: str, request: CallTool) -> bool:
    """Entries are `server:tool`, `server:*`, `*:tool`, or a tool's bare name; `*:*` names nothing."""
    server, colon, tool = entry.partition(":")
    if not colon:
        return entry == request.tool
    return server in ("*", request.server) and tool in ("*", request.tool) and (server, tool) != ("*", "*")


def judge_browser(request: UseBrowser, settings: Settings, facts: Facts) -> Decision:
    """Browsers are off where the administrator says so, ask where the user does, and else run."""
    reason = (
        _switched_off(settings)
        or needs_person(settings, "every use of a browser")
        or _browser(f"browser {request.action}".rstrip(), settings)
    )
    return Decision(reason.verdict, (reason,), sandboxed=False, policy=facts.policy)


def _switched_off(settings: Settings) -> Reason | None:
    if settings.admin.browser_features:
        return None
    said, remedy = "an administrator has switched browser use off", "ask your administrator"
    return by_setting(settings, "browser_features", Verdict.DENY, said, "admin.browser", False, remedy)


def _browser(what: str, settings: Settings) -> Reason:
    protected = settings.protect.browser
    verdict = Verdict.ASK if protected else Verdict.ALLOW
    said = f"a person is to see `{what}`" if protected else f"`{what}` needs no approval"
    return by_setting(settings, "browser", verdict, said, "protect.browser", protected)
