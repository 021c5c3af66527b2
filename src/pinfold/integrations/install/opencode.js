
export const Pinfold = async ({ directory, worktree }) => {
  const parents = {} // of subagents' sessions
  const agents = {}
  let servers = []
  const first = (id) => (parents[id] ? first(parents[id]) : id)
  const call = (event, id, more) => ({
    hook_event_name: event,
    session_id: id && first(id),
    cwd: directory,
    workspace_roots: [worktree && worktree !== "/" ? worktree : directory],
    permission_mode: agents[id] === "plan" ? "plan" : "default",
    ...more,
  })
  const named = (tool) => {
    const heads = servers.map((name) => [name, `${name.replace(/[^a-zA-Z0-9_-]/g, "_")}_`])
    const found = heads.filter(([, head]) => tool.startsWith(head)).sort((a, b) => b[1].length - a[1].length)[0]
    return found ? { tool_name: `mcp__${found[0]}__${tool.slice(found[1].length)}`, mcp_server: { name: found[0] } } : { tool_name: tool }
  }
  return {
    config: async (config) => {
      servers = Object.keys(config.mcp ?? {})
    },
    event: async ({ event }) => {
      const info = event.properties?.info
      if (event.type === "session.created" && info?.parentID) parents[info.id] = info.parentID
      if (event.type === "session.deleted" && info && !info.parentID) await ask(call("SessionEnd", info.id)).catch(() => {})
    },
    "chat.message": async ({ sessionID, agent }) => {
      if (agent) agents[sessionID] = agent
    },
    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      const said = await ask(call("SessionStart", sessionID)).catch(() => ({}))
      if (said.additionalContext) system.push(said.additionalContext)
    },
    "tool.execute.before": async ({ tool, sessionID }, output) => {
      const said = await ask(call("PreToolUse", sessionID, { ...named(tool), tool_input: output.args }))
      if (!["allow", undefined].includes(said.permissionDecision)) throw new Error(said.permissionDecisionReason)
      replace(output.args, said.updatedInput)
    },
  }
}
