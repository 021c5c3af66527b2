"""The few exceptions, sorted by whose fault it is.

A denial is a value (`model.decision`), never an exception. Text from an agent that cannot be parsed
becomes a decision too.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pinfold.model.decision import Decision
    from pinfold.model.permission import Settlement


class PinfoldError(Exception):
    """The base of every error that Pinfold raises on purpose; its text is one clear line."""


class PolicyError(PinfoldError):
    """The author of a settings or policy text is at fault.

    `excerpt` shows the place with a caret under it, `help` says what to write instead.
    """

    def __init__(self, message: str, *, where: str = "", excerpt: str = "", help: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.excerpt = excerpt
        self.help = help

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class RequestError(PinfoldError, TypeError, ValueError):
    """The arguments of a call make no valid request, or no command can take them; nothing was done."""


class ConfinementError(PinfoldError):
    """The sandbox that was asked for cannot be provided, or broke; the text says whether anything ran."""


class SandboxUnavailable(ConfinementError):  # noqa: N818  (the name users of other systems know)
    """This machine cannot provide a sandbox, and the settings do not allow going on without one."""


class SandboxViolation(PinfoldError):  # noqa: N818
    """A command was not run; `Result.check` raises it for callers that prefer exceptions."""


class FileRefused(PinfoldError):  # noqa: N818  (a refusal, as with commands)
    """A file tool did nothing; says which rule denied it, and what would change that."""

    def __init__(
        self,
        rule: str,
        path: str,
        message: str,
        remedy: str,
        decision: "Decision | None" = None,
        settlement: "Settlement | None" = None,
    ) -> None:
        super().__init__(f"{message}; {remedy}" if remedy else message)
        self.rule, self.path, self.message, self.remedy = rule, path, message, remedy
        self.decision, self.settlement = decision, settlement
        """The decision, where there was one, and the answer, where an approver was asked."""


class InternalError(PinfoldError):
    """An internal error in Pinfold; please report it."""
