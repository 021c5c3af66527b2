// Written by `pinfold install`, which writes it anew at the next install. What it says to Pinfold's hook, and hears,
// is in the words of Claude Code's hooks.
import { spawn } from "node:child_process"

const HOOK = []

/** What the hook answers. Whatever else comes of it is an error, and so a no. */
function ask(payload) {
  return new Promise((resolve, reject) => {
    const no = (why) => reject(new Error(why || "pinfold: the hook failed, which counts as no; run: pinfold doctor"))
    const child = spawn(HOOK[0], HOOK.slice(1), { stdio: ["pipe", "pipe", "pipe"] })
    let answer = ""
    let complaint = ""
    child.stdout.setEncoding("utf8").on("data", (text) => (answer += text))
    child.stderr.setEncoding("utf8").on("data", (text) => (complaint += text))
    child.stdin.on("error", () => {})
    child.on("error", (error) => no(`pinfold: the hook cannot start: ${error.message}; run: pinfold doctor`))
    child.on("close", (code) => {
      if (code !== 0) return no(code === 2 ? complaint.trim() : "")
      try {
        resolve((answer.trim() ? JSON.parse(answer) : {}).hookSpecificOutput ?? {})
      } catch {
        no("")
      }
    })
    child.stdin.end(JSON.stringify(payload))
  })
}

/** Makes the input what the hook says; agents run the object that they gave, not another in its place. */
function replace(input, wanted) {
  if (!wanted) return
  for (const name of Object.keys(input)) if (!(name in wanted)) delete input[name]
  Object.assign(input, wanted)
}
