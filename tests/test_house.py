"""What holds of the tree as a whole."""

import ast
import functools
import inspect
import re
from pathlib import Path

import pytest
from bench.house import class_names, importers, modules, tree_of

import pinfold
from pinfold.cli import VERBS
from pinfold.model.decision import StepCode
from pinfold.model.load_structs import load_table
from pinfold.policy.decide import STEPS
from pinfold.sandbox.linux.protocol import channel
from pinfold.sandbox.linux.protocol.message import WireMessage
from pinfold.service import client, remote_session
from pinfold.settings.keys import TABLE

TOP = Path(__file__).parent.parent
SOURCE = TOP / "src/pinfold"
MODULES = sorted(SOURCE.rglob("*.py"))

MAY_IMPORT = {
    "model": set(),
    "kernel": {"model"},
    "shell": {"model"},
    "policy": {"model"},
    "settings": {"model"},
    "sandbox": {"model", "kernel"},
    "network": {"model", "kernel"},
    # What runs in the session's process: it judges, asks and journals for the gate, which knows no settings.
    "network/host": {"model", "policy", "approval", "sandbox", "audit", "state"},
    # Questions about calls that wait come from the sandbox, and their answers are journaled.
    "approval": {"model", "policy", "sandbox", "audit", "workspace"},
    "audit": {"model"},
    "files": {"model", "kernel"},
    "state": {"model", "audit"},
    "workspace": {"model", "kernel", "policy", "settings", "sandbox", "shell"},
    "session": {
        *("model", "kernel", "shell", "policy", "settings", "approval"),
        *("sandbox", "network", "files", "audit", "state", "workspace"),
    },
    "diagnose": {"model", "shell", "policy", "settings", "sandbox", "state", "workspace", "session"},
    "service": {"model", "kernel", "policy", "approval", "state", "session"},
    "integrations": {
        *("model", "kernel", "shell", "policy", "settings", "approval"),
        *("audit", "state", "workspace", "session", "diagnose", "service"),
    },
    "web": {"model", "kernel", "approval", "state", "session"},
    "cli": {
        *("model", "shell", "policy", "settings", "approval", "audit", "state", "workspace", "session"),
        *("diagnose", "service", "integrations", "web"),
    },
}
# Who may start a process: the shell parser, hooks, notifications, agents' hooks and clients, the fence, the
# attacks on it, a client of the service, which starts that, and `acp`, which starts an editor's agent.
STARTS_PROCESSES = {
    "shell/shfmt.py",
    "session/hooks.py",
    "approval/notifications.py",
    "integrations/hooks/hook_process.py",
    "service/command_client.py",
    "service/client.py",
    "cli/acp.py",
    "kernel/namespaces.py",
    "kernel/probe.py",
    "sandbox/attacks/runner.py",
    "sandbox/attacks/processes.py",
    "sandbox/unsandboxed.py",
    "sandbox/linux/keeper/build_pen.py",
    "sandbox/linux/host/spawn_keeper.py",
    "sandbox/linux/keeper/forked_helpers.py",
    "sandbox/linux/spawner/main.py",
}


@functools.cache
def imports(path: Path) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    package, *rest = path.relative_to(SOURCE).parts
    if not rest:
        return
    ours = {name.split(".")[1] for name in imports(path) if name.startswith("pinfold.")} - {package}
    packages = {name for name in ours if (SOURCE / name).is_dir()}
    assert packages <= MAY_IMPORT.get(f"{package}/{rest[0]}", MAY_IMPORT[package])


def test_the_gate_has_no_code_of_its_sessions() -> None:
    for path in sorted((SOURCE / "network").glob("*.py")):
        assert not [name for name in imports(path) if name.startswith("pinfold.network.host.")], path


LINUX = SOURCE / "sandbox/linux"
FORKED = ("keeper", "init", "spawner", "granter", "warden")
"""The folders of the processes that the keeper is and forks."""


def modules_in(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((LINUX / folder).glob("*.py"))]


def module_of(name: str) -> Path | None:
    path = SOURCE.parent.joinpath(*name.split("."))
    return next((each for each in (path.with_suffix(".py"), path / "__init__.py") if each.exists()), None)


def test_forked_processes_have_neither_msgspec_nor_the_hosts_code() -> None:
    """The keeper imports all that they run, before it forks them."""
    waiting = modules_in(*FORKED, "protocol")
    seen = set(waiting)
    while waiting:
        path = waiting.pop()
        names = imports(path)
        assert not any(name.split(".")[0] == "msgspec" for name in names), path
        assert not any(name.startswith("pinfold.sandbox.linux.host") for name in names), path
        found = {module for name in names if name.startswith("pinfold.") and (module := module_of(name))}
        waiting += found - seen
        seen |= found
    assert SOURCE / "kernel/syscall.py" in seen


def test_the_host_has_no_code_of_forked_processes() -> None:
    for path in modules_in("host"):
        for name in imports(path):
            assert not name.startswith(tuple(f"pinfold.sandbox.linux.{each}" for each in FORKED)), (
                path,
                name,
            )


def test_every_value_on_a_channel_is_a_message_of_protocol() -> None:
    """`channel.send` takes messages alone, as mypy checks, and nothing else writes plain values."""
    assert [path for path in MODULES if "marshal" in imports(path)] == [LINUX / "protocol/channel.py"]
    assert inspect.signature(channel.send).parameters["message"].annotation is WireMessage
    kinds = {WireMessage.__name__}
    classes = [
        (path, each) for path in MODULES for each in ast.walk(tree_of(path)) if isinstance(each, ast.ClassDef)
    ]
    for _ in range(4):  # as deep as they derive from each other
        kinds |= {
            each.name for _, each in classes if {getattr(base, "id", "") for base in each.bases} & kinds
        }
    assert "CallAsked" in kinds
    assert {path.parent for path, each in classes if each.name in kinds} == {LINUX / "protocol"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_every_module_says_what_it_is(path: Path) -> None:
    assert ast.get_docstring(tree_of(path))


SMALL = 40
SMALL_WITH_ONE_IMPORTER = {
    "network.listeners": "the format of /proc/net/tcp, which has its own tests",
}
"""A module under `SMALL` lines that another module alone imports: the contract that it holds."""
NAMED_TWICE: dict[str, str] = {}
"""A class name that two modules have: why neither can have another name."""


def test_a_small_module_with_one_importer_holds_a_contract() -> None:
    paths = modules()
    known = importers(paths)
    small = {name for name, path in paths.items() if len(path.read_text().splitlines()) < SMALL}
    assert {name for name in small if len(known[name]) == 1} == set(SMALL_WITH_ONE_IMPORTER)


def test_a_class_name_means_one_class() -> None:
    found = {name for name, homes in class_names(modules()).items() if len(homes) > 1}
    assert found == set(NAMED_TWICE)


def test_no_folder_is_a_flat_list_of_everything() -> None:
    for folder in {path.parent for path in MODULES}:
        assert len(list(folder.glob("*.py"))) <= 40, folder


def test_what_is_imported_by_name_is_what_is_found_by_name() -> None:
    """Type checkers read the imports, programs ask `__getattr__`, and `*` takes `__all__`."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    imported = {
        (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module != "importlib"
        for alias in node.names
    }
    assert imported == {(f"pinfold.{home}", name) for home, names in pinfold._HOMES.items() for name in names}
    assert pinfold.__all__ == sorted(name for _, name in imported)


def test_what_programs_use_is_documented() -> None:
    public = [getattr(pinfold, name) for name in pinfold.__all__]
    public += [client.Welcome, remote_session.RemoteResult, remote_session.RemoteEvent]
    for kind in filter(inspect.isclass, public):
        assert kind.__doc__, kind
        for name, member in vars(kind).items():
            is_ours = inspect.isfunction(member) or isinstance(member, property | classmethod)
            if is_ours and not name.startswith("_"):
                assert inspect.getdoc(member), (kind, name)


def test_nothing_else_starts_processes() -> None:
    words = re.compile(r"\b(subprocess|posix_spawn\w*|os\.exec\w+|os\.fork|os\.system|os\.popen|pty\.)\b")
    found = {str(path.relative_to(SOURCE)) for path in MODULES if words.search(path.read_text())}
    assert found == STARTS_PROCESSES


def test_raw_system_calls_live_in_kernel_alone() -> None:
    assert not [path for path in MODULES if "ctypes" in imports(path) and "kernel" not in path.parts]


def test_policy_is_pure() -> None:
    impure = {"os", "time", "socket", "subprocess", "random", "asyncio", "threading"}
    for path in sorted((SOURCE / "policy").glob("*.py")):
        assert not imports(path) & impure, path.name


def test_the_page_about_decisions_lists_the_steps_in_their_order() -> None:
    table = (TOP / "docs/decision.md").read_text().partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert rows == [step.__name__ for step in STEPS]


def test_every_claim_has_a_test_of_its_name() -> None:
    for line in (TOP / "SECURITY.md").read_text().splitlines():
        claim = re.match(r"\| `(\w+)` \|.*\| (.*) \|$", line)
        if claim and "[test]" in claim[2]:
            for linked in re.findall(r"\[test\]\(([^)]+)\)", claim[2]):
                assert f"def test_{claim[1]}(" in (TOP / linked).read_text(), (claim[1], linked)


def test_every_claim_in_the_text_has_a_probe_of_its_name() -> None:
    """SECURITY.md has the table; the pages of docs/ have more claims, each beside a link to its test."""
    found = 0
    for page in (TOP / "SECURITY.md", *sorted((TOP / "docs").glob("*.md"))):
        for claim, linked in re.findall(r"\(`(\w+)`,\s+\[test\]\(([^)]+)\)\)", page.read_text()):
            beside = "".join(path.read_text() for path in (page.parent / linked).parent.glob("*.py"))
            assert f"def {claim}(" in beside, (page.name, claim, linked)
            found += 1
    assert found >= 130


def test_what_is_not_protected_is_one_list() -> None:
    """Readers find every limit in one place; other pages link to it."""
    pages = [TOP / "SECURITY.md", *(TOP / "docs").glob("*.md")]
    assert not [page.name for page in pages if re.search(r"\bNot held\b", page.read_text())]
    lists = [page.name for page in pages if "## Not protected\n" in page.read_text()]
    assert lists == ["threat-model.md"]


@pytest.mark.parametrize("page", [*TOP.glob("*.md"), *TOP.glob("docs/*.md")], ids=lambda page: page.name)
def test_what_pages_name_is_there(page: Path) -> None:
    text = page.read_text()
    found = [TOP / each for each in re.findall(r"`((?:tests|src|spec|bench|docs|examples)/[\w./-]+)`", text)]
    links = re.findall(r"\]\((?!https?:|#)([^)]+)\)", text)
    found += [page.parent / link.partition("#")[0] for link in links]
    for path in found:
        assert path.exists() or path.stem == "NAME", path
    for name in re.findall(r"`((?:\w+/)+\w+\.py)`", text):
        assert any((place / name).exists() for place in (TOP, SOURCE)) or "NAME" in name, (page.name, name)


OTHERS_NAMES = {"memory.max", "memory.swap.max", "hooks.state", "config.lock", "config.worktree"}
"""Files of the kernel and of git, and a table of Codex's settings, which look like modules of ours."""


def described(path: Path) -> set[str]:
    """The dotted names in backticks in a module's docstrings."""
    nodes = (node.value for node in ast.walk(tree_of(path)) if isinstance(node, ast.Expr))
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {name for text in texts for name in re.findall(r"`(?:pinfold\.)?([a-z_]\w*(?:\.\w+)+)`", text)}


@functools.cache
def endings_and_packages() -> tuple[dict[str, str], set[str]]:
    """Every way to name a module by the end of its dotted name, and the names that a dotted name has."""
    parts = [each.relative_to(SOURCE).with_suffix("").parts for each in MODULES]
    endings = {".".join(each[at:]): "/".join(each) for each in parts for at in range(len(each))}
    endings |= {name.removesuffix(".__init__"): path for name, path in endings.items()}
    return endings, {folder for each in parts for folder in each}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_that_docstrings_name_are_there(path: Path) -> None:
    known = {key.name for key in TABLE} | OTHERS_NAMES
    endings, packages = endings_and_packages()
    for name in described(path) - known - endings.keys():
        home, _, member = name.rpartition(".")
        if name.partition(".")[0] in packages:
            assert home in endings, name
            assert re.search(rf"\b{member}\b", (SOURCE / f"{endings[home]}.py").read_text()), name


THREAD = re.compile(
    r'begin_thread\([^"]*"([\w-]+)"|Workers\(\s*"([\w-]+)"|name(?:_prefix)?="pinfold-([\w-]+)"',
)


def test_the_page_about_architecture_lists_the_threads_of_a_session() -> None:
    page = (TOP / "docs/architecture.md").read_text()
    packages = ("sandbox", "session", "network", "workspace", "approval")
    text = "".join(path.read_text() for each in packages for path in (SOURCE / each).rglob("*.py"))
    names = {"".join(found) for found in THREAD.findall(text)}
    assert len(names) >= 5
    assert not [name for name in names if f"`{name}`" not in page]


def test_the_page_about_the_command_line_lists_every_verb() -> None:
    table = (TOP / "docs/cli.md").read_text().partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(VERBS)


def test_pinfolds_own_verbs_are_charted_and_no_others() -> None:
    chart = load_table(str(SOURCE / "shell/data/pinfold.toml"))
    assert {*chart["known"].split(), *chart["subcommands"]} == {*VERBS, "help"}


def test_every_step_of_the_decision_has_a_code_of_its_name() -> None:
    assert [StepCode(step.__name__) for step in STEPS] == list(StepCode)[: len(STEPS)]


SEARCHES = {
    *("startswith", "endswith", "find", "rfind", "index", "rindex", "count"),
    *("partition", "rpartition", "split", "rsplit", "removeprefix", "removesuffix"),
}
FOR_PEOPLE = {"why", "message", "by", "remedy", "answered", "refusal", "told"}
"""Attributes that hold text for people."""
CODES = {"step", "code", "outcome", "asked_at"}
"""Attributes that hold members of enums."""
PROSE = re.compile(r"[a-z]{2,} [a-z]{2,}")
COMPARED_ALL_THE_SAME = {
    ("settings/toml.py", "invalid value"): "tomllib tells its errors by message alone before Python 3.14",
    ("settings/merge.py", "command line"): "the name of a layer",
    ("workspace/git_places.py", "ANYWHERE"): "a path that stands for one",
    ("kernel/syscall.py", "_SINCE_424"): "a list of names",
    ("shell/shfmt.py", "<standard input>:"): "how shfmt begins the place of an error",
}
"""A module and the text: why it is compared."""


def is_prose(node: ast.AST) -> bool:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return any(isinstance(each, ast.Constant) and PROSE.search(str(each.value)) for each in parts) and (
        isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    )


def messages_of(tree: ast.Module) -> set[str]:
    """The names of a module's constants that are sentences."""
    assigned = [node for node in tree.body if isinstance(node, ast.Assign) and is_prose(node.value)]
    return {target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)}


def compared(tree: ast.AST) -> list[tuple[bool, list[ast.expr]]]:
    """What is compared with what, or searched for what, and whether it is searched."""
    found: list[tuple[bool, list[ast.expr]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and not all(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            found.append((False, [node.left, *node.comparators]))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in SEARCHES:
            assert isinstance(node.func, ast.Attribute)
            found.append((True, [node.func.value, *node.args]))
    return found


def decisions_by_words(source: Path) -> list[str]:
    """Where a comparison or a search in text for people decides something."""
    trees = {path: tree_of(path) for path in sorted(source.rglob("*.py"))}
    modules = {".".join(("pinfold", *path.relative_to(source).with_suffix("").parts)): path for path in trees}
    own = {path: messages_of(tree) for path, tree in trees.items()}
    found = []
    for path, tree in trees.items():
        name, messages = str(path.relative_to(source)), set(own[path])
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in modules:
                there = own[modules[node.module]]
                messages |= {each.asname or each.name for each in node.names if each.name in there}

        def is_text(node: ast.expr, messages: set[str] = messages) -> bool:
            if isinstance(node, ast.Tuple | ast.List | ast.Set):
                return any(map(is_text, node.elts))
            return is_prose(node) or (isinstance(node, ast.Name) and node.id in messages)

        for is_search, every in compared(tree):
            words = [
                part.value
                for each in every
                for part in ast.walk(each)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            fields = {each.attr for each in every if isinstance(each, ast.Attribute)}
            by_field = is_search and isinstance(every[0], ast.Attribute) and every[0].attr in FOR_PEOPLE
            if by_field or any(map(is_text, every)) or (fields & (CODES | FOR_PEOPLE) and any(words)):
                names = (part.id for each in every for part in ast.walk(each) if isinstance(part, ast.Name))
                if not any((name, word) in COMPARED_ALL_THE_SAME for word in (*words, *names)):
                    found.append(f"{name}:{every[0].lineno}: {' and '.join(map(ast.unparse, every))}")
    return found


def test_nothing_is_decided_by_how_it_is_worded() -> None:
    """Sentences are for people and may be rewritten; what decides has a code, a field or an enum."""
    assert decisions_by_words(SOURCE) == []


@pytest.mark.parametrize(
    "line",
    [
        "NOBODY = 'nobody can grant that'\nif why.endswith(NOBODY): pass",
        "UNHEARD = f'{1} nobody listens there'\nfound = each.why != UNHEARD",
        "found = 'security modules' in machine.reason",
        "found = said == 'is not in'",
        "found = violation.why.rpartition('; ')",
        "found = settlement.by.startswith('terminal')",
        "found = settlement.by.startswith(approver.name)",
        "found = reason.step == 'denied'",
        "found = reason.step in ('network_allow', 'network_deny')",
        "found = {'network_access': 1}[x] or violation.code != 'hidden'",
    ],
)
def test_what_is_decided_by_words_is_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(line)
    assert len(decisions_by_words(tmp_path)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "found = violation.why == other.why",
        "found = reason.step is StepCode.DENIED or reason.remedy != ''",
        "found = path.startswith('/proc/self')",
        "NOBODY = 'nobody can grant that'\nfound = f'it is hidden, and {NOBODY}'",
    ],
)
def test_what_is_told_or_has_a_code_is_not(line: str, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(line)
    assert decisions_by_words(tmp_path) == []
