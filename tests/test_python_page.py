"""docs/python.md against the package: every public name, its signature, its members and its examples."""

import ast
import enum
import inspect
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import pinfold
from pinfold.files import FileTools

PAGE = (Path(__file__).parent.parent / "docs/python.md").read_text()
SECTIONS = dict(re.findall(r"^### `(\w+)`\n(.*?)(?=^##|\Z)", PAGE, re.DOTALL | re.MULTILINE))
"""Name -> what the page says of it, up to the next heading."""
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
NOT_IMPORTED = {"FileTools": FileTools}
"""Types that programs use without importing them."""
CLASSES = {name: getattr(pinfold, name) for name in pinfold.__all__ if name != "Event"} | NOT_IMPORTED
Function = ast.FunctionDef | ast.AsyncFunctionDef


def stub_text(name: str) -> str:
    """The block with the signature that the page gives for a name."""
    block = re.search(r"```py\n(.*?)```", SECTIONS[name], re.DOTALL)
    assert block, f"docs/python.md gives no ```py block below ### `{name}`"
    return block[1]


def class_in(text: str) -> ast.ClassDef:
    (tree,) = ast.parse(textwrap.dedent(text)).body
    assert isinstance(tree, ast.ClassDef)
    return tree


def unquoted(node: ast.expr | None) -> str:
    """An annotation, without the quotes that delay its evaluation."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return ast.unparse(node) if node else "None"


def signature(function: Function) -> str:
    for node in ast.walk(function.args):
        if isinstance(node, ast.arg) and node.annotation:
            node.annotation = ast.parse(unquoted(node.annotation), mode="eval").body
    start = "async def" if isinstance(function, ast.AsyncFunctionDef) else "def"
    marks = "".join(f"@{ast.unparse(each)} " for each in function.decorator_list)
    return f"{marks}{start} {function.name}({ast.unparse(function.args)}) -> {unquoted(function.returns)}"


def declared(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Each member of a class with its declaration; a property is declared like an attribute."""
    for node in body:
        if isinstance(node, ast.AnnAssign):
            default = f" = {ast.unparse(node.value)}" if node.value else ""
            yield ast.unparse(node.target), unquoted(node.annotation) + default
        elif isinstance(node, ast.Assign):
            yield ast.unparse(node.targets[0]), ast.unparse(node.value)
        elif isinstance(node, Function):
            is_property = any(ast.unparse(each) == "property" for each in node.decorator_list)
            yield node.name, unquoted(node.returns) if is_property else signature(node)


def set_by_init(kind: ast.ClassDef) -> dict[str, str]:
    """The attributes that `__init__` sets, with the annotation that the source gives, if any."""
    found: dict[str, str] = {}
    for node in ast.walk(kind):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.attr, "")
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            found[node.target.attr] = unquoted(node.annotation)
    return found


def members(kind: type) -> dict[str, str]:
    """Public members as the source declares them; an empty declaration is not known."""
    tree = class_in(inspect.getsource(kind))
    found = {**set_by_init(tree), **dict(declared(tree.body))}
    return {name: each for name, each in found.items() if name.startswith("__") or not name.startswith("_")}


def test_every_public_name_has_a_heading_and_no_other_has() -> None:
    assert sorted(SECTIONS) == sorted([*pinfold.__all__, *NOT_IMPORTED])


@pytest.mark.parametrize("name", CLASSES)
def test_the_page_shows_signatures_as_the_source_has_them(name: str) -> None:
    stub, real = class_in(stub_text(name)), members(CLASSES[name])
    assert stub.name == name
    assert {ast.unparse(base) for base in stub.bases} <= {kind.__name__ for kind in CLASSES[name].__mro__}
    for member, declaration in declared(stub.body):
        assert member in real, f"docs/python.md shows {name}.{member}, which is not there"
        assert declaration == (real[member] or declaration), f"docs/python.md, {name}.{member}"


@pytest.mark.parametrize("name", CLASSES)
def test_the_page_shows_all_of_values_and_errors(name: str) -> None:
    """Sessions, executions and clients have attributes for Pinfold's own packages as well."""
    kind = CLASSES[name]
    if issubclass(kind, msgspec.Struct | enum.Enum | Exception):
        shown = dict(declared(class_in(stub_text(name)).body))
        real = members(kind).items()
        missing = [f"{each}: {how}" for each, how in real if each not in shown and not each.startswith("__")]
        assert not missing, f"docs/python.md lacks these below ### `{name}`: {missing}"


@pytest.mark.parametrize("name", CLASSES)
def test_the_page_explains_every_member(name: str) -> None:
    lines = stub_text(name).splitlines()
    for member, _ in declared(class_in(stub_text(name)).body):
        (line,) = [each for each in lines if re.match(rf"    (async )?(def )?{member}\b", each)]
        assert "  # " in line, f"{name}.{member} has no comment"


def test_the_page_shows_what_an_event_is() -> None:
    assert stub_text("Event") == "Event = Output | Exited\n"
    assert pinfold.Event == pinfold.Output | pinfold.Exited


@pytest.mark.parametrize("name", pinfold.__all__)
def test_an_example_uses_every_name(name: str) -> None:
    assert any(re.search(rf"\bpinfold\.{name}\b", code) for code in EXAMPLES)


@pytest.mark.parametrize("code", EXAMPLES, ids=range(len(EXAMPLES)))
def test_examples_print_what_their_comments_say(code: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    environ = {**os.environ, "HOME": str(tmp_path)}
    environ.pop("XDG_STATE_HOME", None)
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=work, env=environ, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines() == re.findall(r"(?:print\(.*\)  |^ *)# (.*)", code, re.MULTILINE)
