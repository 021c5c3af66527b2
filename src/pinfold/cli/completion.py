"""`pinfold completion SHELL`: what a shell completes pinfold's own words by.

The words are read from the verbs' own parsers when this is asked for: nothing of pinfold runs while somebody
types. What a command is given after `--`, and every path, the shell completes as ever.
"""

from argparse import PARSER, ArgumentParser, Namespace
from collections.abc import Iterator
from importlib import import_module

from pinfold.cli import VERBS
from pinfold.cli.parser import parser_of

BASH = """\
_pinfold() {{
    local words= verb= action=
    case " ${{COMP_WORDS[*]:0:$COMP_CWORD}} " in *" -- "*) return ;; esac
    [ "$COMP_CWORD" -gt 1 ] && verb=${{COMP_WORDS[1]}}
    [ "$COMP_CWORD" -gt 2 ] && action=${{COMP_WORDS[2]}}
    case "$verb $action" in
{}
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
{}
    end
end
complete -c pinfold -a '(__pinfold_words)'"""
SHELLS = {
    "bash": (BASH, "        '{} '{}) words='{}' ;;"),
    "zsh": (ZSH, "        '{} '{}) words='{}' ;;"),
    "fish": (FISH, "        case '{} {}'\n            string split -- ' ' '{}'"),
}
"""The script of each, and how it says which words may follow a verb and its action."""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=tuple(SHELLS), metavar="SHELL", help="one of %(choices)s")


def run(args: Namespace) -> int:
    script, line = SHELLS[args.shell]
    print(script.format("\n".join(line.format(*each) for each in _words())))
    return 0


def _words() -> Iterator[tuple[str, str, str]]:
    """A verb, its action or `*` for whatever comes then, and what may follow: the closest come first."""
    for name, verb in VERBS.items():
        parser = parser_of(name, verb.help, verb.exits)
        import_module(f"pinfold.cli.{verb.module}").configure(parser)
        for action in parser._actions:
            actions = action.choices if action.nargs == PARSER and isinstance(action.choices, dict) else {}
            for each, inner in actions.items():
                yield name, each, " ".join(_following(inner))
        yield name, "*", " ".join(_following(parser))
    yield "", "", " ".join(VERBS)


def _following(parser: ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        # What an option takes is not known from the word before it here, but what stands for itself is.
        yield from action.option_strings or action.choices or ()
