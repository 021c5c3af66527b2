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
        # A read of something hidden is no refusal that is seen.
        (
            "cat ~/.ssh/there-or-not",
            "`~/.ssh/there-or-not` is hidden from commands: `pinfold",
        ),
        ("cd x && cat a/keys.pem", "`a/keys.pem` is hidden from commands"),
        ("cat notes.pem.txt -", ""),
        ("head -keys.pem", ""),
    ],
)
def test_hint(line: str, told: str) -> None:
    settings = {"filesystem": {"hide": ["keys.pem"]}}
    session = Session(["."], settings=settings)
    said = hint(session.check(line), {}, session.cwd, session.roots)
    assert said.startswith(told) and bool(said) is bool(told)
    unfenced = Session(["."], settings={**settings, "sandbox": {"enabled": False}})
    assert not hint(unfenced.check(line), {}, unfenced.cwd, unfenced.roots)
