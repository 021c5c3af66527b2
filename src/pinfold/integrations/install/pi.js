
export default function (pi) {
  let isGreeted = false
  const call = (event, context, more) => ({
    hook_event_name: event,
    session_id: context.sessionManager.getSessionId(),
    cwd: context.cwd,
    permission_mode: context.hasUI ? "default" : "dontAsk",
    ...more,
  })
  pi.on("session_start", async () => {
    isGreeted = false
  })
  pi.on("before_agent_start", async (_, context) => {
    if (isGreeted) return
    isGreeted = true
    const said = await ask(call("SessionStart", context)).catch(() => ({}))
    if (!said.additionalContext) return
    return { message: { customType: "pinfold", content: said.additionalContext, display: false } }
  })
  pi.on("session_shutdown", async (_, context) => {
    await ask(call("SessionEnd", context)).catch(() => {})
  })
  pi.on("tool_call", async (event, context) => {
    try {
      const said = await ask(call("PreToolUse", context, { tool_name: event.toolName, tool_input: event.input }))
      const why = said.permissionDecisionReason
      if (said.permissionDecision === "ask") {
        if (!(await context.ui.confirm("Pinfold", why))) return { block: true, reason: "pinfold: the user said no" }
      } else if (!["allow", undefined].includes(said.permissionDecision)) {
        return { block: true, reason: why }
      }
      replace(event.input, said.updatedInput)
    } catch (error) {
      return { block: true, reason: error.message }
    }
  })
}
