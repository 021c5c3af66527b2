"""Functions of a line that forward their parameters: `run(){ "$@"; }; run npm test` starts `npm test`.

Pinfold judges a command of such a body with the words of each call. So `"$@"` is no doubt there: the words of
a call are known, or doubted at the call. A later line that calls the function is judged as a call of an
unknown program with these words.

Where something in the line gives the shell other parameters (`set -- x`, `shift`), the value of `"$@"` is
unknown.
"""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.script import Command, Word

ALL_PARAMETERS = '"$@"'


class ForwardedCommand(Struct, frozen=True):
    """A command in a function's body that has the function's parameters among its words."""

    function: str
    command: Command

    @property
    def parameter_words(self) -> Iterator[Word]:
        return (word for word in self.command.words if word.source == ALL_PARAMETERS)

    @property
    def may_start_the_rest(self) -> bool:
        """Whether the words after the parameters are a command if there are none: `"$@" git push`."""
        return self.command.words[-1].source != ALL_PARAMETERS

    def word_count(self, call: Command) -> int:
        """The most words that it has with those of a call."""
        return len(self.command.words) + len(call.words) * sum(1 for _ in self.parameter_words)

    def called_with(self, words: tuple[Word, ...], call: Command) -> Command:
        """The command as a call of the function with these words runs it."""
        own = tuple(
            each
            for word in self.command.words
            for each in (words if word.source == ALL_PARAMETERS else (word,))
        )
        text = " ".join(word.source for word in own)
        return replace(self.command, words=own, span=call.span, text=text, via=(*call.via, self.function))
