"""Counts what can be counted of how the tree reads: `python -m bench.house [PACKAGE...]`.

Prints, for the whole tree or for the named packages: modules, the largest folders, modules of under 40 lines
with one importer, class names that more than one module has, constructors that take a function for a part,
and how often words occur that we avoid.
"""

import ast
import functools
import io
import re
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src/pinfold"
AVOIDED = (
    "who",
    "whoever",
    "whatever",
    "nobody",
    "somebody",
    "stands",
    "is told",
    "fence",
    "fenced",
    "speaks of",
)
"""Words that a program's text rarely needs: a process is an `it`, and a sandbox is a sandbox."""
SMALL = 40


@functools.cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def modules() -> dict[str, Path]:
    """Every module but `__init__`, by its dotted name below the package."""
    paths = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    return {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in paths}


def importers(paths: dict[str, Path]) -> dict[str, set[str]]:
    """For each module the modules that import it."""
    found: dict[str, set[str]] = defaultdict(set)
    everything = [*paths.items(), *((str(path), path) for path in SOURCE.rglob("__init__.py"))]
    for name, path in everything:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("pinfold."):
                home = (node.module or "").removeprefix("pinfold.")
                for alias in node.names:
                    inner = f"{home}.{alias.name}"
                    found[inner if inner in paths else home].add(name)
    return found


def class_names(paths: dict[str, Path]) -> dict[str, list[str]]:
    """The modules that define each class name; private ones count too."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, path in paths.items():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(name)
    return found


PROVIDER = re.compile(r"Callable\[\[\], ['\"]?[A-Z]\w+['\"]?\]$")
"""The type of a function that returns a part when it is called."""


def providers(paths: dict[str, Path]) -> list[str]:
    """Constructors' parameters that are functions which return another object, by module and name."""
    found = []
    for name, path in paths.items():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.FunctionDef) and node.name == "__init__":
                given = [each for each in (*node.args.args, *node.args.kwonlyargs) if each.annotation]
                kinds = {
                    each.arg: ast.unparse(each.annotation).strip("'\"") for each in given if each.annotation
                }
                found += [
                    f"{name}: {each}" for each, kind in kinds.items()
                    if PROVIDER.match(kind) and not kind.endswith("None]")
                ]  # fmt: skip
    return found


def told(path: Path) -> Iterator[str]:
    """Comments and strings of a module."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text()).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.string


def main(packages: list[str]) -> None:
    every = modules()
    own = {
        n: p for n, p in every.items() if not packages or any(n.startswith(f"{each}.") for each in packages)
    }
    lines = sum(len(path.read_text().splitlines()) for path in own.values())
    print(f"modules: {len(own)}, lines: {lines}")
    folders = Counter(str(path.parent.relative_to(SOURCE)) for path in own.values())
    print("largest folders: " + ", ".join(f"{name} {times}" for name, times in folders.most_common(5)))
    known = importers(every)
    small = [
        f"{name} ({len(path.read_text().splitlines())} lines) <- {', '.join(known[name])}"
        for name, path in own.items()
        if len(path.read_text().splitlines()) < SMALL and len(known[name]) == 1
    ]
    print(f"under {SMALL} lines with one importer: {len(small)}", *small, sep="\n  ")
    doubled = {k: v for k, v in class_names(every).items() if len(v) > 1 and set(v) & set(own)}
    print(f"class names that more than one module has: {len(doubled)}")
    for name, homes in sorted(doubled.items()):
        print(f"  {name}: {', '.join(homes)}")
    lazily = providers(own)
    print(f"constructors' parameters that return a part: {len(lazily)}", *lazily, sep="\n  ")
    text = [each for path in own.values() for each in told(path)]
    words = sum(len(each.split()) for each in text)
    print(f"words of comments and strings: {words}; of 10,000 of them:")
    for word in AVOIDED:
        times = sum(len(re.findall(rf"\b{word}\b", each, re.IGNORECASE)) for each in text)
        print(f"  {word}: {times * 10_000 / max(words, 1):.1f} ({times})")


if __name__ == "__main__":
    main(sys.argv[1:])
