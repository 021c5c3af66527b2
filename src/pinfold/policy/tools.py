"""MCP tools and browsers: the same verdicts for what is no command and no file."""

from pinfold.model.approval import AutoRunMode
from pinfold.model.decision import Decision, Reason, Verdict
from pinfold.model.facts import Facts
from pinfold.model.request import CallTool, UseBrowser
from pinfold.model.settings import Settings


def judge_tool(request: CallTool, settings: Settings, facts: Facts) -> Decision:
    """A tool runs without a person if it is on `mcp.allow`, or if tools are not protected at all."""
    called = f"{request.server}:{request.tool}"
    entry = next((entry for entry in settings.mcp.allow if _names(entry, request)), None)
    reason = (
        _needs_person(settings, called)
        or (entry and _allowed(called, f"`{called}` is on the list as `{entry}`", "mcp.allow", settings))
        or _unprotected(settings, called)
        or Reason(
            "mcp_tools",
            f"`{called}` is not on the list of tools",
            Verdict.ASK,
            rule="protect.mcp_tools = true",
            origin=settings.origin("protect.mcp_tools"),
            remedy=f'add "{called}" to `mcp.allow`',
        )
    )
    candidate = (called,) if reason.verdict is Verdict.ASK and not settings.admin.enabled else ()
    return Decision(reason.verdict, (reason,), sandboxed=False, policy=facts.policy, candidates=candidate)


def judge_browser(request: UseBrowser, settings: Settings, facts: Facts) -> Decision:
    """Browsers are off where the administrator says so, ask where the user does, and else run."""
    what = f"browser {request.action}".rstrip()
    if not settings.admin.browser_features:
        reason = Reason(
            "browser_features",
            "an administrator has switched browser use off",
            Verdict.DENY,
            rule="admin.browser = false",
            origin=settings.origin("admin.browser"),
            remedy="ask your administrator",
        )
    elif settings.protect.browser:
        reason = Reason(
            "browser",
            f"`{what}` wants to be seen by a person",
            Verdict.ASK,
            rule="protect.browser = true",
            origin=settings.origin("protect.browser"),
            remedy="set `protect.browser = false`",
        )
    else:
        reason = _needs_person(settings, what) or _allowed(
            what, f"`{what}` needs no approval", "protect.browser", settings
        )
    return Decision(reason.verdict, (reason,), sandboxed=False, policy=facts.policy)


def _names(entry: str, request: CallTool) -> bool:
    """Entries are `server:tool`, `server:*`, `*:tool`, or a tool's bare name."""
    server, colon, tool = entry.partition(":")
    if not colon:
        return entry == request.tool
    return server in ("*", request.server) and tool in ("*", request.tool) and (server, tool) != ("*", "*")


def _needs_person(settings: Settings, what: str) -> Reason | None:
    if not (settings.admin.disabled or settings.mode is AutoRunMode.ASK_EVERY_TIME):
        return None
    key = "admin.auto_run" if settings.admin.disabled else "mode"
    return Reason(
        key.replace(".", "_"),
        f"`{what}` wants to be seen by a person",
        Verdict.ASK,
        rule=key,
        origin=settings.origin(key),
        remedy=f"change `{key}`",
    )


def _unprotected(settings: Settings, called: str) -> Reason | None:
    if settings.protect.mcp_tools:
        return None
    return _allowed(called, f"`{called}` runs: tools are not protected", "protect.mcp_tools", settings)


def _allowed(_what: str, message: str, key: str, settings: Settings) -> Reason:
    return Reason(key.replace(".", "_"), message, Verdict.ALLOW, rule=key, origin=settings.origin(key))
