"""The desk: where every question of a session is put, whoever has it, and where answers are remembered."""

from collections.abc import Sequence

from pinfold.approval.chain import Approver, settle
from pinfold.model.permission import PermissionNeeded, Settlement


class Desk:
    """May be used from any thread."""

    def __init__(self, approvers: Sequence[Approver]) -> None:
        self.approvers = tuple(approvers)

    def ask(self, question: PermissionNeeded) -> Settlement:
        """The answer that holds; a person is asked if there is none yet."""
        return settle(question, self.approvers)
