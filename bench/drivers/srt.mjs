// Runs commands with srt's own library, set up once; they come as lines of JSON.
// Usage: node srt.mjs LIBRARY SETTINGS

import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'

const SHOWN = 4000
const [library, settings] = process.argv.slice(2)
const { SandboxManager } = await import(library)

function run(wrapped) {
  return new Promise(resolve => {
    const child = spawn(wrapped, { shell: true, stdio: ['ignore', 'pipe', 'pipe'] })
    const parts = { stdout: [], stderr: [] }
    child.stdout.on('data', data => parts.stdout.push(data))
    child.stderr.on('data', data => parts.stderr.push(data))
    child.on('error', error => resolve([1, '', error.message]))
    child.on('close', code => {
      const text = name => Buffer.concat(parts[name]).subarray(-SHOWN).toString()
      resolve([code ?? 1, text('stdout'), text('stderr')])
    })
  })
}

async function one(line) {
  return run(await SandboxManager.wrapWithSandbox(line))
}

await SandboxManager.initialize(JSON.parse(readFileSync(settings, 'utf8')))
for await (const request of createInterface({ input: process.stdin })) {
  const [count, , line] = JSON.parse(request)
  const ends = await Promise.all(Array.from({ length: count }, () => one(line)))
  SandboxManager.cleanupAfterCommand()
  process.stdout.write(JSON.stringify(ends.find(([code]) => code) ?? ends[0]) + '\n')
}
await SandboxManager.reset()
process.exit(0)
