"""`pinfold completion SHELL`: a completion script for pinfold's own words.

The words come from the verbs' parsers when the script is printed, so that no pinfold runs while a person
types. The shell completes paths, and a command's own words after `--`, as it always does.
"""

from argparse import PARSER, ArgumentParser, Namespace
from collections.abc import Iterator

from pinfold.cli import VERBS

BASH = """\
_pinfold() {{
    local words= verb= action=
    case " ${{COMP_WORDS[*]:0:$COMP_CWORD}} " in *" -- "*) return ;; esac
    case "${{COMP_WORDS[1]}} ${{COMP_WORDS[COMP_CWORD-1]}}" in
{values}
    esac
    [ "$COMP_CWORD" -gt 1 ] && verb=${{COMP_WORDS[1]}}
    [ "$COMP_CWORD" -gt 2 ] && action=${{COMP_WORDS[2]}}
    [ -n "$words" ] || case "$verb $action" in
{words}
    esac
    COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _pinfold pinfold"""
ZSH = "autoload -U +X bashcompinit && bashcompinit\n" + BASH
FISH = """\
function __pinfold_words
    set -l given (commandline -opc) '' ''
    contains -- -- $given; and return
    switch "$given[2] $given[3]"
{words}
    end
end
function __pinfold_wants_word
    set -l given (commandline -opc)
    test (count $given) -eq 1; and return
    test (count $given) -eq 2; and contains -- $given[2] {choosing}
end
complete -c pinfold -a '(__pinfold_words)'
complete -c pinfold -f -n __pinfold_wants_word"""
"""fish offers files beside the words, except where the script says that there can be none."""
SHELLS = {
    "bash": (BASH, "        '{} '{}) words='{}' ;;"),
    "zsh": (ZSH, "        '{} '{}) words='{}' ;;"),
    "fish": (FISH, "        case '{} {}'\n            string split -- ' ' '{}'"),
}
"""For each shell: its script, and the line that lists which words may follow a verb and its action."""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(SHELLS), metavar="SHELL", help="one of %(choices)s")


def run(args: Namespace) -> int:
    script, line = SHELLS[args.shell]
    words = "\n".join(line.format(*each) for each in _words())
    print(script.format(words=words, values="\n".join(_values()), choosing=" ".join(_choosing())))
    return 0


def _parsers() -> Iterator[tuple[str, ArgumentParser]]:
    for name, verb in VERBS.items():
        yield name, verb.parser(name)
        for word, action in verb.actions.items():
            yield name, action.parser(f"{name} {word}")


def _values() -> Iterator[str]:
    """For bash and zsh, the words after an option that takes a value: its choices, or what the shell
    offers."""
    for name, parser in _parsers():
        taking = (action for action in parser._actions if action.option_strings and action.nargs != 0)
        for action in taking:
            then = f"words='{' '.join(map(str, action.choices))}'" if action.choices else "return"
            options = "|".join(f"'{name} {option}'" for option in action.option_strings)
            yield f"        {options}) {then} ;;"


def _words() -> Iterator[tuple[str, str, str]]:
    """A verb, its action or `*` for any, and the words that may follow: the most specific come first."""
    for name, verb in VERBS.items():
        parser = verb.parser(name)
        for word, own in verb.actions.items():
            yield name, word, " ".join(_following(own.parser(f"{name} {word}")))
        for action in parser._actions:
            actions = action.choices if action.nargs == PARSER and isinstance(action.choices, dict) else {}
            for each, inner in actions.items():
                yield name, each, " ".join(_following(inner))
        yield name, "*", " ".join((*verb.actions, *_following(parser)))
    yield "", "", " ".join(VERBS)


def _choosing() -> Iterator[str]:
    """Verbs that are followed by one of their words: an action, an agent, a shell."""
    for name, parser in _parsers():
        if any(action.choices and not action.option_strings for action in parser._actions):
            yield name


def _following(parser: ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings or action.choices or ()
