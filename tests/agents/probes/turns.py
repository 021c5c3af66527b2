"""Turns of real agents with a stand-in for their model: each function runs in a child, as root.

The child has a network of its own with nothing but loopback: whatever an agent would like to tell others,
it tells nobody.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.agents.model_stub import Call, Model
from tests.patience import wait_until
from tests.probe_module import in_own_network

PROGRAMS = {
    "claude-code": "claude",
    "codex": "codex",
    "gemini": "gemini",
    "opencode": "opencode",
    "pi": "pi",
    "droid": "droid",
    "vscode": "copilot",  # which reads the same hooks
    "auggie": "auggie",
    "qwen": "qwen",
}
TOOLS = {
    "claude-code": ("Bash", "command"),
    "codex": ("exec_command", "cmd"),
    "gemini": ("run_shell_command", "command"),
    "opencode": ("bash", "command"),
    "pi": ("bash", "command"),
    "droid": ("Execute", "command"),
    "vscode": ("bash", "command"),
    "auggie": ("launch-process", "command"),
    "qwen": ("run_shell_command", "command"),
}
NEEDED: dict[str, dict[str, Any]] = {
    "opencode": {"description": "x"},
    "vscode": {"description": "x"},
    "auggie": {"wait": True, "max_wait_seconds": 200, "cwd": "."},
    "qwen": {"is_background": False},
}
"""Arguments that a tool wants besides the line."""
IN_BACKGROUND: dict[str, tuple[str, dict[str, Any]]] = {
    "claude-code": ("run_in_background", {}),
    "gemini": ("is_background", {"dir_path": "sub"}),
}
"""The argument that lets a line run in the background, and the one that says where it starts."""
TOOLS_FOR_FILES = {
    "claude-code": (("Read", "file_path"), ("Write", "content")),
    "gemini": (("read_file", "file_path"), ("write_file", "content")),
    "opencode": (("read", "filePath"), ("write", "content")),
    "pi": (("read", "path"), ("write", "content")),
    "droid": (("Read", "file_path"), ("Create", "content")),
    "vscode": (("view", "path"), ("create", "file_text")),
    "auggie": (("view", "path"), ("save-file", "file_content")),
}
"""The tools that read and write a file, with the argument that names it, and the one with the text."""
DIRECTORIES = {
    "claude-code": ".claude",
    "codex": ".codex",
    "gemini": ".gemini",
    "opencode": ".config/opencode",
    "pi": ".pi/agent",
    "droid": ".factory",
    "vscode": ".copilot",
    "auggie": ".augment",
}
PATIENCE = 240
PATH = "/usr/local/bin:/usr/bin:/bin"


def program_of(agent: str) -> str:
    """Where an agent is on this machine; empty if it is not."""
    kept = os.environ.get("PINFOLD_AGENTS") or os.path.expanduser("~/.cache/pinfold-agents")
    return shutil.which(PROGRAMS[agent], path=f"{kept}/node_modules/.bin:{os.environ['PATH']}") or ""


def search_path(agent: str) -> str:
    """`make agents` keeps a newer Node beside the agents, where they need one."""
    return f"{os.path.dirname(PROGRAMS[agent])}:{PATH}"


def pinfold(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pinfold", *words], capture_output=True, text=True, check=True, env=environ()
    )
    return done.stdout


def environ(**more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "PYTHONPATH")}
    return {**kept, "PATH": PATH, "PINFOLD_HOOK_SERVICE": "0"} | more


def settings(text: str) -> None:
    path = Path.home() / ".config/pinfold/settings.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def turn(agent: str, line: str, patience: float = PATIENCE) -> str:
    """What the model is told of a command that it asked for."""
    return turns(agent, line, patience=patience)[0]


def turns(agent: str, *lines: str, patience: float = PATIENCE, **more: str) -> list[str]:
    """What the model is told of each of these lines, in one conversation."""
    tool, key = TOOLS[agent]
    return uses(
        agent,
        *(Call(tool, {key: line, **NEEDED.get(agent, {})}) for line in lines),
        patience=patience,
        **more,
    )


def use(agent: str, tool: str, *, words: Sequence[str] = (), **given: Any) -> str:
    return uses(agent, Call(tool, given), words=words)[0]


def uses(
    agent: str, *calls: Call, words: Sequence[str] = (), patience: float = PATIENCE, **more: str
) -> list[str]:
    """What the model is told of each of these calls, in one conversation; `words` are for the agent."""
    model = Model(*([each] for each in calls))
    try:
        own_words, started = started_by(agent, model.address)
        done = subprocess.run(
            [PROGRAMS[agent], *own_words, *words],
            env=environ(**started, **more) | {"PATH": search_path(agent)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=patience,
        )
        assert done.returncode == 0 and "done" in done.stdout, done.stdout + done.stderr
        assert len(model.heard) == len(calls), (model.heard, done.stdout + done.stderr)
        return [json.loads(each) if each.startswith('"') else each for each in model.heard]
    finally:
        model.close()


def started_by(agent: str, address: str) -> tuple[list[str], dict[str, str]]:
    if agent == "claude-code":
        quiet = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1"}
        return ["-p", "go"], {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "none", **quiet}
    if agent == "codex":
        provider = (
            f"model_providers.none={{name='none',base_url='{address}/v1',env_key='KEY',wire_api='responses'}}"
        )
        # Whoever installs the hook is asked once whether to trust it; here nobody is there to say yes.
        words = [
            "exec",
            "--skip-git-repo-check",
            "-s",
            "danger-full-access",
            "--dangerously-bypass-hook-trust",
        ]
        return [*words, "-c", provider, "-c", "model_provider='none'", "go"], {"KEY": "none"}
    if agent == "opencode":
        served: dict[str, Any] = {
            "npm": "@ai-sdk/openai-compatible",
            "options": {"baseURL": f"{address}/v1", "apiKey": "none"},
        }
        models: dict[str, Any] = {"models": {"m": {"name": "m"}}}
        write_json(
            ".config/opencode/opencode.json",
            {
                "permission": "allow",
                "model": "none/m",
                "small_model": "none/m",
                "provider": {"none": {**served, **models}},
            },
        )
        # It asks npm for a package of its plugins first, again and again where no network is.
        (Path.home() / ".config/opencode/.npmrc").write_text("offline=true\nfetch-retries=0\n")
        still = (
            "OPENCODE_DISABLE_AUTOUPDATE",
            "OPENCODE_DISABLE_MODELS_FETCH",
            "OPENCODE_DISABLE_LSP_DOWNLOAD",
        )
        return ["run", "go"], dict.fromkeys(still, "1") | {"npm_config_offline": "true"}
    if agent == "pi":
        served = {"baseUrl": f"{address}/v1", "apiKey": "none", "api": "openai-completions"}
        write_json(".pi/agent/models.json", {"providers": {"none": {**served, "models": [{"id": "m"}]}}})
        return ["--provider", "none", "--model", "m", "-p", "go"], {"PI_OFFLINE": "1"}
    if agent == "droid":
        own: dict[str, Any] = {"model": "m", "displayName": "m", "baseUrl": f"{address}/v1", "apiKey": "none"}
        own |= {"provider": "generic-chat-completion-api", "maxOutputTokens": 1000}
        write_json(".factory/settings.json", {"customModels": [own]})
        words = ["exec", "--model", "custom:m", "--skip-permissions-unsafe", "go"]
        return words, {"FACTORY_API_KEY": "fk-none", "FACTORY_DROID_AUTO_UPDATE_ENABLED": "false"}
    if agent == "vscode":
        model = {
            "COPILOT_PROVIDER_BASE_URL": f"{address}/v1",
            "COPILOT_MODEL": "m",
            "COPILOT_OFFLINE": "true",
        }
        return ["-p", "go", "--allow-all-tools"], {**model, "COPILOT_PROVIDER_API_KEY": "none"}
    if agent == "auggie":
        known = {"accessToken": "none", "tenantURL": f"{address}/", "scopes": ["email"]}
        words = ["--print", "--instruction", "go", "--allow-indexing", "--dont-save-session"]
        return words, {"AUGMENT_SESSION_AUTH": json.dumps(known), "AUGMENT_DISABLE_AUTO_UPDATE": "1"}
    if agent == "qwen":
        model = {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{address}/v1", "OPENAI_MODEL": "m"}
        return ["-p", "go", "--yolo"], model
    more = {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": address, "GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return ["-p", "go", "-m", "gemini-2.5-flash", "--yolo"], more


def write_json(path: str, value: Any) -> None:
    file = Path.home() / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))


def installed(agent: str, *, with_hooks: bool = True) -> None:
    if agent == "gemini":
        write_json(".gemini/settings.json", {"security": {"auth": {"selectedType": "gemini-api-key"}}})
    if agent == "qwen":
        write_json(".qwen/settings.json", {"security": {"auth": {"selectedType": "openai"}}})
    if with_hooks:
        pinfold("install", agent)


# What holds of every agent


def a_command_runs_in_a_pen(agent: str) -> None:
    told = turn(agent, "echo pen=$PINFOLD_PEN; touch ~/outside; touch inside")
    assert "pen=1" in told and "pinfold: refused open" in told, told
    assert Path("inside").exists() and not (Path.home() / "outside").exists()


def what_is_denied_is_not_run(agent: str) -> None:
    settings('[commands]\ndeny = ["touch denied"]\n')
    told = turn(agent, "touch before && touch denied")
    assert "touch denied" in told and "pinfold" in told, told
    assert not Path("before").exists() and not Path("denied").exists()


def what_nobody_is_asked_about_is_not_run(agent: str) -> None:
    """Gemini CLI waits for an answer that nobody can give, where it was started without a terminal."""
    settings('[commands]\nask = ["touch asked"]\n')
    try:
        told = turn(agent, "touch asked", patience=20 if agent == "gemini" else PATIENCE)
    except subprocess.TimeoutExpired:
        assert agent == "gemini"
        told = "nothing"
    assert not Path("asked").exists(), told


def a_yes_on_the_page_lets_a_call_go_on(agent: str) -> None:
    from tests.web.page_world import Tab, page

    with page(Path.home()) as (opened, _):
        tab = Tab(opened)

        def say_yes() -> None:
            (question,) = tab.questions()
            assert question["content"]["headline"] == "write ~/outside", question
            tab.answer(question["id"], "once")

        person = threading.Thread(target=say_yes)
        person.start()
        told = turn(agent, "echo yes > ~/outside; cat ~/outside")
        person.join(10)
    assert "yes" in told and (Path.home() / "outside").read_text() == "yes\n", told


def a_conversation_has_one_warm_session(agent: str) -> None:
    """What a line leaves is there for the next; nothing is left when the agent has ended."""
    mark = f"left-by-{agent}-{os.getpid()}"
    left = f"(exec -a {mark} sleep 600 > /dev/null 2>&1) & echo $! > /tmp/pid; echo kept > /tmp/kept"
    turns(agent, "true", PINFOLD_HOOK_SERVICE="")  # starts the service
    told = turns(
        agent,
        f"mkdir -p sub; {left}",
        "cat /tmp/kept; kill -0 $(cat /tmp/pid) && echo lives; echo said >&2; exit 3",
        "cd sub",
        "pwd; cat /tmp/kept",
        PINFOLD_HOOK_SERVICE="",
    )
    assert "kept" in told[1] and "lives" in told[1] and "said" in told[1], told
    assert "kept" in told[3], told
    assert (f"{os.getcwd()}/sub" in told[3]) == (agent == "claude-code"), told
    records = Path.home() / ".local/state/pinfold/conversations"
    wait_until(lambda: not os.listdir(records))
    wait_until(lambda: not subprocess.run(["pgrep", "-f", f"^{mark}"], capture_output=True).stdout)


def what_was_denied_is_told_and_how_to_ask(agent: str) -> None:
    turns(agent, "true", PINFOLD_HOOK_SERVICE="")  # starts the service
    (told,) = turns(agent, "echo x > ~/outside", PINFOLD_HOOK_SERVICE="")
    assert "pinfold: refused open" in told, told


def a_file_tools_tmp_is_the_lines_tmp(agent: str) -> None:
    """Gemini CLI's own tools refuse /tmp."""
    turns(agent, "true", PINFOLD_HOOK_SERVICE="")  # starts the service
    shell, key = TOOLS[agent]
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: /tmp/x\n+by the tool\n*** End Patch\nEOF"
    (read, where), (write, content) = TOOLS_FOR_FILES.get(agent, (("", ""), ("", "")))
    calls: tuple[Call, ...] = (
        Call(write, {where: "/tmp/x", content: "by the tool\n"}),
        Call(shell, {key: "cat /tmp/x; echo by a line > /tmp/x", **NEEDED.get(agent, {})}),
        Call(read, {where: "/tmp/x"}),
    )
    if agent == "codex":
        update = patch.replace("Add File: /tmp/x\n", "Update File: /tmp/x\n@@\n-by a line\n")
        lines = (patch, "cat /tmp/x; echo by a line > /tmp/x", update, "cat /tmp/x")
        calls = tuple(Call(shell, {key: line}) for line in lines)
    elif agent == "gemini":
        calls = (calls[0], Call(shell, {key: "ls /tmp/x"}))
    told = uses(agent, *calls, PINFOLD_HOOK_SERVICE="")
    assert not Path("/tmp/x").exists()
    if agent == "gemini":
        assert "No such file" in told[1], told
        return
    assert "by the tool" in told[1] and "by a line" not in told[1], told
    assert "by a line" in told[2] or "by the tool" in told[3], told


def without_a_dialog_nothing_is_asked_beforehand(agent: str) -> None:
    """The line runs as far as it can, though its words tell that it wants more."""
    turns(agent, "true", PINFOLD_HOOK_SERVICE="")  # starts the service
    (told,) = turns(agent, "curl -s http://x.example; git add .; echo code=$?", PINFOLD_HOOK_SERVICE="")
    assert "code=128" in told, told


def a_line_runs_where_and_how_the_agent_says(agent: str) -> None:
    """In a directory of its own, in the background, or with a time limit of the agent's."""
    Path("sub").mkdir()
    Path("link").symlink_to("sub")
    turns(agent, "true", PINFOLD_HOOK_SERVICE="")  # starts the service
    shell, key = TOOLS[agent]
    wait = "until [ -e go ]; do sleep 0.05; done; echo $PWD > began"
    here, more = os.getcwd(), NEEDED.get(agent, {})
    if agent == "codex":
        calls = (
            Call(shell, {key: "touch go; pwd", "workdir": "sub"}),
            Call(shell, {key: "pwd", "workdir": f"{here}/link"}),
            Call(shell, {key: "pwd", "yield_time_ms": 20_000, "max_output_tokens": 500}),
        )
        told = uses(agent, *calls, PINFOLD_HOOK_SERVICE="")
        assert f"{here}/sub" in told[0] and f"{here}/sub" in told[1], told
        assert Path("sub/go").exists() and here in told[2] and f"{here}/sub" not in told[2], told
        return
    if agent not in IN_BACKGROUND:
        into = {"workdir": f"{here}/sub"} if agent == "opencode" else {}
        line = "pwd" if into else "cd sub && pwd"
        told = uses(
            agent,
            Call(shell, {key: line, **more, **into}),
            Call(shell, {key: "pwd", **more}),
            PINFOLD_HOOK_SERVICE="",
        )
        assert f"{here}/sub" in told[0] and here in told[1], told
        return
    background, inside = IN_BACKGROUND[agent]
    there = "cd sub && pwd" if not inside else "pwd"
    up = "../" if inside else ""
    told = uses(
        agent,
        Call(shell, {key: wait, background: True, "description": "waits"}),
        Call(shell, {key: f"touch {up}go; until [ -e {up}began ]; do sleep 0.05; done; {there}", **inside}),
        Call(shell, {key: "pwd; cd .."}),
        Call(shell, {key: "pwd"}),
        PINFOLD_HOOK_SERVICE="",
    )
    assert f"{here}/sub" in told[1] and Path("began").read_text() == f"{here}\n", told
    assert (f"{here}/sub" in told[2]) == (agent == "claude-code"), told
    if agent == "claude-code":
        assert here in told[3] and f"{here}/sub" not in told[3], told


def a_hook_that_cannot_start_is_a_no(agent: str) -> None:
    from pinfold.integrations.install.agents import MARK, target_of

    file = Path(target_of(agent, os.environ).file)
    whole = file.read_text()
    raised = (" -I -S ", " -I -S -c 'raise SystemExit(1)' ")
    if agent in ("opencode", "pi"):
        raised = ('"-I", "-S", ', '"-I", "-S", "-c", "raise SystemExit(1)", ')
    for old, new in ((MARK, f"gone/{MARK}"), raised):
        assert old in whole, whole
        file.write_text(whole.replace(old, new))
        told = turn(agent, "echo ran=$((6*7)); touch ran")
        assert not Path("ran").exists() and "ran=42" not in told, told


def what_an_agent_needs_is_seen(agent: str) -> None:
    directory = Path.home() / DIRECTORIES[agent]
    for path, text in (("skills/pdf/SKILL.md", "a skill\n"), ("oauth.json", "SECRET\n")):
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text)
    told = turn(agent, f"cat {directory}/skills/pdf/SKILL.md; cat {directory}/oauth.json; ls -A {directory}")
    assert (
        "a skill" in told
        and "SECRET" not in told
        and "oauth.json" not in told.replace(f"{directory}/oauth.json", "")
    ), told


# Of Claude Code


def other_hooks_do_not_undo_it(agent: str) -> None:
    file = Path.home() / ".claude/settings.json"
    whole = json.loads(file.read_text())
    (ours,) = whole["hooks"]["PreToolUse"]
    other = {"matcher": "Bash", "hooks": [{"type": "command", "command": "echo '{}'"}]}
    for hooks in ([other, ours], [ours, other], [other, ours, other]):
        whole["hooks"]["PreToolUse"] = hooks
        file.write_text(json.dumps(whole))
        assert "pen=1" in turn(agent, "echo pen=$PINFOLD_PEN")


def files_are_judged_too(agent: str) -> None:
    secret = Path.home() / ".ssh/id_ed25519"
    secret.parent.mkdir()
    secret.write_text("PRIVATE\n")
    for tool, given in (
        ("Read", {"file_path": str(secret)}),
        ("Write", {"file_path": f"{os.getcwd()}/.vscode/tasks.json", "content": "{}"}),
    ):
        told = use(agent, tool, **given)
        assert "pinfold" in told and "PRIVATE" not in told, told
    assert not Path(".vscode").exists()


def memory_is_written(agent: str) -> None:
    """Claude Code asks for other files of its own, and here nobody could say yes."""
    own = Path.home() / ".claude"
    memory = own / "projects" / re.sub("[^a-zA-Z0-9]", "-", os.getcwd()) / "memory/MEMORY.md"
    told = use(agent, "Write", file_path=str(memory), content="remembered\n")
    assert memory.exists() and memory.read_text() == "remembered\n", told
    for other in (own / "settings.local.json", own / "skills/x/SKILL.md"):
        told = use(agent, "Write", file_path=str(other), content="{}")
        assert "pinfold" in told and not other.exists(), told


def a_plan_reads_unasked(agent: str) -> None:
    """Started without a terminal, it would take a question for a no."""
    Path("seen.txt").write_text("read unasked\n")
    for has_auto_mode in (True, False):
        given = json.dumps({"useAutoModeDuringPlan": has_auto_mode})
        words = ["--permission-mode", "plan", "--settings", given]
        line = f"cd {os.getcwd()} && cat seen.txt | sort; echo pen=$PINFOLD_PEN"
        told = use(agent, "Bash", words=words, command=line)
        assert "read unasked" in told and "pen=1" in told, told
        use(agent, "Bash", words=words, command="touch made")
        assert not Path("made").exists()


# Of those whose tools have names of their own


def reads_and_edits_are_judged(agent: str) -> None:
    secret = Path.home() / ".ssh/id_ed25519"
    secret.parent.mkdir()
    secret.write_text("PRIVATE\n")
    (read, where), (write, text) = TOOLS_FOR_FILES[agent]
    more: dict[str, Any] = {"type": "file"} if agent == "auggie" else {}
    told = use(agent, read, **{where: str(secret)}, **more)
    assert "pinfold" in told and "PRIVATE" not in told, told
    told = use(agent, write, **{where: f"{os.getcwd()}/.vscode/tasks.json", text: "{}"})
    assert "pinfold" in told and not Path(".vscode").exists(), told
    use(agent, write, **{where: f"{os.getcwd()}/fine.txt", text: "fine"})
    assert Path("fine.txt").read_text().strip() == "fine"


# Of Codex


def a_patch_in_a_shell_line_is_judged_as_one(agent: str) -> None:
    Path("sub").mkdir()

    patch = "*** Begin Patch\n*** Add File: {}\n+made by a patch\n*** End Patch"
    for number, head in enumerate(
        ("apply_patch <<'EOF'", "apply_patch <<EOF", "cd sub && apply_patch <<'EOF'")
    ):
        told = turn(agent, f"{head}\n{patch.format(f'made{number}')}\nEOF")
        made = Path("sub" if "cd" in head else ".") / f"made{number}"
        assert made.exists() and made.read_text() == "made by a patch\n", told
    for path in (".git/hooks/pre-commit", ".vscode/tasks.json", "../outside", "~/.bashrc"):
        for head in ("apply_patch <<'EOF'", "cd sub && apply_patch <<'EOF'"):
            where = path if "cd" not in head else f"../{path}"
            told = turn(agent, f"{head}\n{patch.format(where)}\nEOF")
            assert "pinfold" in told and not Path(path).exists(), (path, told)
    # What is more than a patch is a line like any other.
    more = "echo pen=$PINFOLD_PEN; touch ~/outside"
    told = turn(agent, f"apply_patch <<'EOF'\n{patch.format('made3')}\nEOF\n{more}")
    assert "pen=1" in told and not (Path.home() / "outside").exists(), told


# Of Qwen Code, whose hooks change nothing


def a_line_outside_the_sandbox_is_judged(agent: str) -> None:
    """None runs unless the settings let a line run where there is no sandbox, and no deny rule matches it."""
    told = turn(agent, "touch made")
    assert "pinfold" in told and not Path("made").exists(), told
    settings(
        '[sandbox]\nif_unavailable = "run"\n[commands]\nallow = ["touch made"]\ndeny = ["touch denied"]\n'
    )
    turn(agent, "touch made")
    told = turn(agent, "touch denied")
    assert "touch denied" in told and Path("made").exists() and not Path("denied").exists(), told


EVERYWHERE = (
    "a_hook_that_cannot_start_is_a_no",
    "what_an_agent_needs_is_seen",
    "a_command_runs_in_a_pen",
    "what_is_denied_is_not_run",
    "what_nobody_is_asked_about_is_not_run",
    "a_yes_on_the_page_lets_a_call_go_on",
    "a_conversation_has_one_warm_session",
    "what_was_denied_is_told_and_how_to_ask",
    "a_file_tools_tmp_is_the_lines_tmp",
    "a_line_runs_where_and_how_the_agent_says",
    "without_a_dialog_nothing_is_asked_beforehand",
)
OF = {
    "claude-code": (
        "other_hooks_do_not_undo_it",
        "files_are_judged_too",
        "memory_is_written",
        "a_plan_reads_unasked",
    ),
    "codex": ("a_patch_in_a_shell_line_is_judged_as_one",),
    "opencode": ("reads_and_edits_are_judged",),
    "pi": ("reads_and_edits_are_judged",),
    "droid": ("reads_and_edits_are_judged",),
    "vscode": ("reads_and_edits_are_judged",),
    "auggie": ("reads_and_edits_are_judged",),
    "qwen": (
        "a_hook_that_cannot_start_is_a_no",
        "what_is_denied_is_not_run",
        "a_line_outside_the_sandbox_is_judged",
    ),
}
"""What holds of one agent alone."""
JUDGED = frozenset(["qwen"])
"""Agents that run no command in the sandbox."""


if __name__ == "__main__":
    in_own_network()
    name, chosen, PROGRAMS[chosen] = sys.argv[1].split(":")
    subprocess.run(["git", "init", "--quiet"], check=True)
    installed(chosen)
    globals()[name](chosen)
