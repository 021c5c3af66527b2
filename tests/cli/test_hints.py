"""What a failed command is told by its words."""

import pytest

from pinfold import Session
from pinfold.cli.hints import AS_OWNER, hint


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("chmod 4755 f", AS_OWNER),
        ("chmod 06755 f", AS_OWNER),
        ("chmod u+s f", AS_OWNER),
        ("chmod u+rwx,go-w,+s f", AS_OWNER),
        ("install -m 4755 a b", AS_OWNER),
        ("install -m4755 a b", AS_OWNER),
        ("cd x && install --mode=u=rxs a b", AS_OWNER),
        ("chmod gu+s f", AS_OWNER),
        ("chmod 2755 f", ""),
        ("chmod g+s f", ""),
        ("chmod 755 f", ""),
        ("chmod a+x,u-s programs", ""),
        ("chmod +x as=s", ""),
        ("echo chmod 4755", ""),
        ("git -C x submodule add y", "`git submodule add` does not work"),
        ("git worktree remove wt", "`git worktree remove` does not work"),
        ("git submodule update", ""),
        ("ssh x", ""),
    ],
)
def test_hint(line: str, told: str) -> None:
    decision = Session(["."], settings={}).check(line)
    said = hint(decision, {})
    assert said.startswith(told) and bool(said) is bool(told)
    assert not hint(Session(["."], settings={"sandbox": {"enabled": False}}).check(line), {})
