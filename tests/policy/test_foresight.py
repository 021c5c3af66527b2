"""What lines want beyond their policy: exactly that, and nothing that is allowed or cannot be granted."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinfold.model.request import RunCommand
from pinfold.session import Session
from pinfold.session.permission_requests import named

PYPI = ["connect to pypi.org:443", "connect to files.pythonhosted.org:443"]
NPM, GIT = ["connect to registry.npmjs.org:443"], ["git writes"]
HUB = ["connect to registry-1.docker.io:443", "connect to auth.docker.io:443"]

WANTS = {
    # git
    "git commit -m x": GIT,
    "git -C sub add -A && git commit -m 'see https://x.example'": GIT,
    "env A=1 timeout 5 git stash": GIT,
    "bash -c 'git checkout -b x'": GIT,
    "git branch x": GIT,
    "git tag v1": GIT,
    "git init": GIT,
    "git worktree add ../x": GIT,
    "git status; git log; git diff; git branch; git tag -l; git stash list; git push origin main": [],
    "git commit --dry-run": [],
    "cd /tmp && git init && git commit -m x": [],
    "ssh-less && cd / && git commit": [],
    # hosts in addresses
    "curl -sSL https://a.example/x -o y": ["connect to a.example:443"],
    "curl a.example:8080/x; wget -q a.example/y": ["connect to a.example:8080", "connect to a.example:80"],
    "for i in 1 2; do curl https://a.example/$i; done": ["connect to a.example:443"],
    'curl "$URL"; curl "https://$HOST/x"; echo https://a.example; grep https://a.example f': [],
    "curl http://localhost:3000 http://127.0.0.1 http://[::1]:80 http://169.254.169.254/": [],
    "curl -H 'Referer: https://a.example/' -d https://b.example http://c.example": [
        "connect to c.example:80"
    ],
    "git clone https://a.example/b.git": [*GIT, "connect to a.example:443"],
    "git clone git@a.example:b/c.git": [*GIT, "connect to a.example:22"],
    "git ls-remote ssh://git@a.example:2222/b": ["connect to a.example:2222"],
    "ssh me@a.example git commit": ["connect to a.example:22"],
    "ssh -p 22022 me@a.example; ssh alias": [],
    "rsync -a x a.example:y": ["connect to a.example:22"],
    # registries
    "pip install requests": PYPI,
    "python3 -m pip install -e .": PYPI,
    "pip install -i https://a.example/simple requests": ["connect to a.example:443"],
    "pip install --index-url=https://a.example/simple requests": ["connect to a.example:443"],
    "PIP_INDEX_URL=http://a.example pip install x": ["connect to a.example:80"],
    "pip install --no-index x; pip list; pip show x": [],
    "pip install git+https://a.example/b": ["connect to a.example:443", *PYPI],
    "uv pip install x": PYPI,
    "uv pip list; uv run x": [],
    "npm ci": NPM,
    "npm i left-pad": NPM,
    "npm install --registry http://a.example:8/": ["connect to a.example:8"],
    "npm test; npm run build; npx tsc": [],
    "yarn add x": ["connect to registry.yarnpkg.com:443"],
    "cargo fetch": ["connect to index.crates.io:443", "connect to static.crates.io:443"],
    "cargo build; cargo test": [],
    "docker pull ubuntu": HUB,
    "docker pull a.example:5000/b:1; podman pull b.example/c": [
        "connect to a.example:5000",
        "connect to b.example:443",
    ],
    "docker pull localhost/x; docker run x curl https://a.example": [],
    # hidden files
    "cat ~/.netrc": ["read $HOME/.netrc"],
    "curl --version < ~/.netrc": ["read $HOME/.netrc"],
    "cat ~/.ssh/id_ed25519 .env ~/.aws/credentials ~/mine/secret ~/.pgpass": [],
    # what is not understood
    "if": [],
    "eval $X; $Y commit": [],
}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    project = tmp_path / "home/project"
    (project / ".git").mkdir(parents=True)
    (project / "sub").mkdir()
    home = tmp_path / "home"
    for name in (".netrc", ".ssh/id_ed25519", ".aws/credentials", "mine/secret", "project/.env"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text("")
    environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
    with Session([project], cwd=project, environ=environ, settings={}) as opened:
        yield opened


def wants(session: Session, line: str) -> list[str]:
    request = RunCommand(line)
    found = session.judge_at(session.cwd).foreseen(request, session.check(request))
    return [named(each).replace(session.environ["HOME"], "$HOME") for each in found]


@pytest.mark.parametrize("line", WANTS)
def test_a_line_wants(line: str, session: Session) -> None:
    assert wants(session, line) == WANTS[line]


@pytest.mark.parametrize(
    ("changed", "left"),
    [
        ({"network": {"access": "none"}}, GIT),
        ({"network": {"access": "rules"}}, GIT),
        ({"network": {"access": "all"}}, GIT),
        ({"network": {"allow": ["*.example"]}}, GIT),
        ({"network": {"deny": ["a.example"]}}, GIT),
        ({"filesystem": {"git_writes": True}}, ["connect to a.example:443"]),
        ({"filesystem": {"ask": False}}, ["connect to a.example:443"]),
        ({"sandbox": {"policy": "read-only"}}, []),
        ({"sandbox": {"enabled": False}}, []),
        ({"commands": {"deny": ["git"]}}, []),
    ],
)
def test_what_is_allowed_or_never_asked_about_is_not_wanted(
    changed: dict[str, dict[str, object]], left: list[str], session: Session
) -> None:
    session.change(changed)
    assert wants(session, "git commit -m x; curl https://a.example") == left


def test_a_benign_line_wants_nothing(session: Session) -> None:
    lines = (Path(__file__).parent.parent / "corpus/benign.txt").read_text().splitlines()
    found = [wants(session, line) for line in lines]
    assert found and not any(found)
