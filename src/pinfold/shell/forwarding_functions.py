"""Functions of a line that pass on what they are given: `run(){ "$@"; }; run npm test` starts `npm test`.

A command of such a body is judged with the words of each call. So what `"$@"` is there is no doubt any more:
a call's own words are known, or doubted where the call stands. A later line that calls the function has the
words in it, as those of a program that nothing is known of.

Where something in the line gives the shell other parameters (`set -- x`, `shift`), what `"$@"` is cannot be
known.
"""

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from pinfold.model.script import Command, Word

ALL_PARAMETERS = '"$@"'


class ForwardedCommand(Struct, frozen=True):
    """A command in a function's body that has the function's own words among its words."""

    function: str
    command: Command

    @property
    def parameter_words(self) -> Iterator[Word]:
        return (word for word in self.command.words if word.source == ALL_PARAMETERS)

    @property
    def may_start_the_rest(self) -> bool:
        """Whether with no words at all what stands after them may be the command: `"$@" git push`."""
        return self.command.words[-1].source != ALL_PARAMETERS

    def word_count(self, call: Command) -> int:
        """At most so many words it has with those of a call."""
        return len(self.command.words) + len(call.words) * sum(1 for _ in self.parameter_words)

    def called_with(self, words: tuple[Word, ...], call: Command) -> Command:
        """It, where the function is called with these words."""
        own = tuple(
            each
            for word in self.command.words
            for each in (words if word.source == ALL_PARAMETERS else (word,))
        )
        text = " ".join(word.source for word in own)
        return replace(self.command, words=own, span=call.span, text=text, via=(*call.via, self.function))
