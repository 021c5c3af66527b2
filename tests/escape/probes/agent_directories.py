"""An agent's own directory in the home: what agents need of it can be read, and the rest is hidden. Each
function runs in a child of the tests, as root and as an ordinary user. Its name says what must hold."""

import os
import re
from pathlib import Path

from tests.escape.probes.sandbox import SECRET, does, opened, put, stays_hidden
from tests.probe_module import probes_of, run

import pinfold
from pinfold.model.decision import Verdict

HOME = Path.home()
CLAUDE = HOME / ".claude"
OTHERS = (
    ".claude/.credentials.json",
    ".claude/history.jsonl",
    ".claude/settings.json",
    ".claude/projects/-elsewhere/talk.jsonl",
    ".claude/projects/-elsewhere/talk/tool-results/1.txt",
    ".claude/plugins/data/tokens.json",
    ".claude/projects/.hidden/memory/MEMORY.md",
    ".codex/auth.json",
    ".codex/sessions/2026/rollout.jsonl",
    ".gemini/oauth_creds.json",
    ".gemini/tmp/elsewhere/tool-outputs/1.txt",
    ".gemini/tmp/elsewhere/chats/session.json",
)


def own(path: str) -> str:
    """Where Claude Code keeps something of the project that this is."""
    return f".claude/projects/{re.sub('[^a-zA-Z0-9]', '-', os.getcwd())}/{path}"


def needed() -> tuple[str, ...]:
    return (
        ".claude/CLAUDE.md",
        ".claude/skills/pdf/SKILL.md",
        ".claude/plugins/cache/market/plugin/1/hooks.json",
        ".claude/plans/plan.md",
        ".claude/projects/-elsewhere/memory/MEMORY.md",
        own("talk/tool-results/1.txt"),
        ".codex/skills/pdf/SKILL.md",
        ".codex/memories/summary.md",
        ".gemini/skills/pdf/SKILL.md",
        f".gemini/tmp/{Path.cwd().name.lower()}/tool-outputs/session-1/1.txt",
        ".gemini/tmp/elsewhere/session/plans/plan.md",
    )


def kept() -> None:
    for path in needed():
        put(str(HOME / path), f"needed {path}\n")
    for path in (*OTHERS, own("talk.jsonl")):
        put(str(HOME / path))


def what_agents_need_is_seen_and_the_rest_is_not() -> None:
    kept()
    with opened() as session:
        for path in needed():
            assert does(session, f"cat ~/{path}") == f"needed {path}\n"
        stays_hidden(session, *(f"cat ~/{path}" for path in (*OTHERS, own("talk.jsonl"))))
        stays_hidden(
            session, "grep -r . ~/.claude ~/.codex ~/.gemini", "cat ~/.claude/*/*/../../history.jsonl"
        )
        assert does(session, "ls -A ~/.claude/projects/-elsewhere").split() == ["memory"]
        assert ".credentials.json" not in does(session, "ls -A ~/.claude")


def no_command_writes_it() -> None:
    kept()
    with opened() as session:
        for path in needed():
            session.run(f"echo more >> ~/{path}; rm -f ~/{path}; mv ~/{path} x")
            assert (HOME / path).read_text() == f"needed {path}\n"
        for line in ("mkdir ~/.claude/new", "echo > ~/.claude/settings.json", "mv ~/.claude ~/.else"):
            assert session.run(line).exit_code
    assert (CLAUDE / "settings.json").read_text() == SECRET and not (CLAUDE / "new").exists()


def what_comes_while_a_session_lasts_is_as_if_it_had_been_there() -> None:
    kept()
    with opened() as session:
        does(session, "true")
        put(str(HOME / own("later/tool-results/2.txt")), "kept output\n")
        put(str(HOME / own("later.jsonl")))
        put(str(CLAUDE / "agent-memory/reviewer/MEMORY.md"), "remembered\n")
        assert does(session, f"cat ~/{own('later/tool-results/2.txt')}") == "kept output\n"
        assert does(session, "cat ~/.claude/agent-memory/*/MEMORY.md") == "remembered\n"
        stays_hidden(session, f"cat ~/{own('later.jsonl')}")


def links_lead_where_they_did() -> None:
    """Who keeps their skills among their dotfiles links to them; a link to a secret shows nothing."""
    kept()
    put(str(HOME / "dotfiles/agents/reviewer.md"), "an agent\n")
    (CLAUDE / "agents").symlink_to("../dotfiles/agents")
    put(str(HOME / ".ssh/id_rsa"))
    (CLAUDE / "commands").symlink_to(HOME / ".ssh")
    (CLAUDE / "rules").symlink_to("projects/-elsewhere")
    with opened() as session:
        assert does(session, "cat ~/.claude/agents/reviewer.md") == "an agent\n"
        stays_hidden(session, "cat ~/.claude/commands/id_rsa", "cat ~/.claude/rules/talk.jsonl")


def a_directory_that_is_a_link_is_no_way_in() -> None:
    kept()
    CLAUDE.rename(HOME / "dotclaude")
    CLAUDE.symlink_to("dotclaude")
    with opened() as session:
        for place in (".claude", "dotclaude"):
            assert does(session, f"cat ~/{place}/plans/plan.md") == "needed .claude/plans/plan.md\n"
            stays_hidden(session, f"cat ~/{place}/.credentials.json", f"grep -r . ~/{place}/projects")


def a_home_that_is_the_project_hides_it_as_well() -> None:
    kept()
    with opened(None, str(HOME)) as session:
        assert does(session, "cat .claude/plans/plan.md") == "needed .claude/plans/plan.md\n"
        stays_hidden(session, *(f"cat {path}" for path in OTHERS), "mv .claude x; cat x/.credentials.json")
        session.run("echo more >> .claude/plans/plan.md; mv .claude/skills x; rm -rf .claude .codex")
    assert (CLAUDE / "plans/plan.md").read_text() == "needed .claude/plans/plan.md\n"
    assert (CLAUDE / "skills/pdf/SKILL.md").exists() and (CLAUDE / ".credentials.json").exists()


def what_a_person_hides_stays_hidden() -> None:
    kept()
    put(str(CLAUDE / "skills/secret/SKILL.md"))
    put(str(CLAUDE / "plans/other.md"))
    hide = {"filesystem": {"hide": ["~/.claude/skills/secret", "~/.claude/plans"]}}
    with opened(hide) as session:
        assert "needed" in does(session, "cat ~/.claude/skills/pdf/SKILL.md")
        stays_hidden(session, "cat ~/.claude/skills/secret/SKILL.md", "cat ~/.claude/plans/*")
    put(str(CLAUDE / "skills/pdf/SKILL.md"))
    with opened({"filesystem": {"hide": ["~/.claude"]}}) as session:
        stays_hidden(session, "cat ~/.claude/skills/pdf/SKILL.md", "grep -r . ~/.claude")
    narrow = pinfold.SandboxPolicy(hidden=(str(CLAUDE),))
    with opened() as session:
        told = session.run(pinfold.RunCommand("cat ~/.claude/skills/pdf/SKILL.md", policy=narrow))
        assert told.ran and SECRET not in told.stdout


def another_place_for_it_is_hidden_too() -> None:
    put(str(HOME / "elsewhere/.credentials.json"))
    put(str(HOME / "elsewhere/skills/pdf/SKILL.md"), "a skill\n")
    environ = {**os.environ, "CLAUDE_CONFIG_DIR": str(HOME / "elsewhere")}
    with opened(environ=environ) as session:
        assert does(session, "cat ~/elsewhere/skills/pdf/SKILL.md") == "a skill\n"
        stays_hidden(session, "cat ~/elsewhere/.credentials.json")


def file_tools_see_and_write_no_more() -> None:
    kept()
    with opened() as session:
        for path, may in ((".claude/plans/plan.md", Verdict.ALLOW), (OTHERS[0], Verdict.DENY)):
            assert session.check(pinfold.ReadFile(str(HOME / path))).verdict is may
            assert session.check(pinfold.WriteFile(str(HOME / path))).verdict is Verdict.DENY
        assert session.check(pinfold.ReadFile(str(CLAUDE), below=True)).verdict is not Verdict.ALLOW


PROBES = probes_of(globals(), "own", "needed", "kept")

if __name__ == "__main__":
    run(globals())
