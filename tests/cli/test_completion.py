"""`pinfold completion`, in the shells that it is for."""

import functools
import shutil
import subprocess
from pathlib import Path

import pytest

from pinfold.cli import VERBS

PINFOLD = str(Path(__file__).parents[2] / "pinfold")
ASKED = {
    "bash": """
        eval "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _pinfold; printf '%s\\n' "${COMPREPLY[@]}"
    """,
    "zsh": """
        autoload -U compinit && compinit -u -D; eval "$1"; shift
        [[ ${_comps[pinfold]} == *_pinfold* ]] || exit 3
        emulate sh; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _pinfold; print -l -- "${COMPREPLY[@]}"
    """,
    "fish": """
        printf %s $argv[1] | source
        complete -C "$argv[2..]" | string replace -r '\\t.*' ''; or true
    """,
}


def said(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@functools.cache
def script_for(shell: str) -> str:
    return said(PINFOLD, "completion", shell)


def completed(shell: str, *words: str) -> set[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    name = [] if shell == "fish" else [shell]
    return set(said(shell, "-c", ASKED[shell], *name, script_for(shell), "pinfold", *words).split())


@pytest.mark.parametrize("shell", ASKED)
def test_a_shell_completes_verbs_actions_options_and_choices(shell: str) -> None:
    assert completed(shell, "") >= set(VERBS)
    assert completed(shell, "se") >= {"settings", "selftest", "serve"}
    assert completed(shell, "rules", "a") >= {"add"}
    assert {"deny", "ask", "allow"} <= completed(shell, "rules", "add", "")
    assert completed(shell, "rules", "add", "--rea") >= {"--reason"}
    assert completed(shell, "install", "cl") >= {"claude-code"}
    assert completed(shell, "mcp", "wr") >= {"wrap"}
    assert completed(shell, "mcp", "wrap", "--en") >= {"--env"}
    assert "--env" not in completed(shell, "mcp", "--")
    assert completed(shell, "run", "--allow-domain", "x", "--allow-") >= {"--allow-domain"}


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_what_an_option_takes_follows_it(shell: str) -> None:
    assert completed(shell, "run", "--policy", "") == {"read-only", "workspace-write", "danger-full-access"}
    assert completed(shell, "run", "--write", "") == set(), "the shell completes paths"
    assert "--write" in completed(shell, "run", "--policy", "read-only", "--")
    assert "--path" in completed(shell, "check", "--write", "--"), "a switch takes nothing"


def test_what_does_not_begin_so_is_not_offered() -> None:
    """zsh looks for that itself, and fish for more than a beginning."""
    assert completed("bash", "se") == {"settings", "selftest", "serve", "sessions"}
    assert completed("bash", "rules", "add", "--rea") == {"--reason"}


@pytest.mark.parametrize("shell", ASKED)
def test_what_a_command_is_given_is_none_of_our_words(shell: str) -> None:
    assert "--allow-domain" not in completed(shell, "run", "--", "make", "--allow-")


def test_fish_offers_no_file_where_only_a_word_can_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """bash and zsh offer files only where no word of ours fits."""
    (tmp_path / "a-file").touch()
    monkeypatch.chdir(tmp_path)
    assert completed("fish", "") == set(VERBS)
    assert completed("fish", "journal", "") == {"list", "forget", "-h", "--help"}
    assert "a-file" not in completed("fish", "install", "")
    for words in (["run", ""], ["run", "--settings", ""], ["run", "--", ""], ["settings", "validate", ""]):
        assert "a-file" in completed("fish", *words), words
