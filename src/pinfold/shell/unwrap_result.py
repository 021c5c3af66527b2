"""What a command is found to start while it is unwrapped: commands, shell texts, and what nobody can know.

This module decides how each of them is told: what a started command inherits, and which text a shell makes of
its words. It does not know which words of a program start anything; `unwrap` and `code` find that out.
"""

from msgspec.structs import replace

from pinfold.model.locations import Span
from pinfold.model.script import Assignment, Command, Unknown, Word
from pinfold.shell.command_variables import told_by
from pinfold.shell.programs import Runs
from pinfold.shell.results import ShellText


class Started:
    """By one command. It grows while the command's words are gone through."""

    def __init__(self, command: Command, name: str, runs: Runs) -> None:
        self.command = command
        """The one that starts them, as far as it is known by now."""
        self.name = name
        self.runs = runs
        self.via = (*command.via, name)
        self.inner: list[Command] = []
        self.texts: list[ShellText] = []
        self.unknowns: list[Unknown] = []

    def start(
        self, words: tuple[Word, ...], assignments: tuple[Assignment, ...] = (), *, anywhere: bool = False
    ) -> None:
        if not words:
            return
        span = Span(min(w.span.start for w in words), max(w.span.end for w in words))
        outer = tuple(replace(a, exported=True) for a in self.command.assignments)
        lost = anywhere or self.runs.remote
        self.tell(assignments, self.via)
        self.inner.append(
            Command(
                words=words,
                span=span,
                text=" ".join(word.source for word in words),
                assignments=outer + assignments,
                redirections=tuple(replace(r, writes=False, reads=False) for r in self.command.inputs),
                directories=None if lost else self.command.directories,
                via=self.via,
            )
        )

    def start_text(self, words: tuple[Word, ...], span: Span) -> None:
        """Words that a shell gets joined by spaces."""
        texts = [word.literal for word in words]
        if all(text is not None for text in texts):
            joined = " ".join(text for text in texts if text is not None)
            self.texts.append(ShellText(joined, words[0].span if len(words) == 1 else span, self.via))
        else:
            self.start_unknown(f"what `{self.name}` is told to run is only known when it runs", span)

    def start_foreign(self, span: Span, *, is_data: bool = False) -> None:
        """Code in a language that is not the shell's."""
        why = f"code for `{self.name}` cannot be judged by the rules of bash"
        self.start_unknown(why, span, is_data=is_data)

    def start_unknown(self, why: str, span: Span, *, is_data: bool = False) -> None:
        """Any command may be started here."""
        self.unknowns.append(Unknown(why, span, True, is_data))

    def tell(self, assignments: tuple[Assignment, ...], via: tuple[str, ...]) -> None:
        """Variables may hold commands too, which programs run by themselves: `PAGER`, for instance."""
        told = told_by(assignments, via)
        self.texts += told.texts
        self.unknowns += told.unknowns
