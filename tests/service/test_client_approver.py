"""A client that is asked, without a session behind it."""

import threading
from typing import Any

from pinfold.approval import settle
from pinfold.model.permission import Answer, SettlementOutcome
from pinfold.service.client_approver import ClientApprover
from tests.approval.questions import question


def test_a_client_hears_that_nobody_waits_any_more() -> None:
    """The program that wanted a host has ended: its question does not stand on a person's screen for ever."""
    heard: list[tuple[str, dict[str, Any]]] = []
    is_asked = threading.Event()

    def tell(event: str, params: dict[str, Any]) -> bool:
        heard.append((event, params))
        is_asked.set()
        return True

    client = ClientApprover(tell, lambda _: "")
    settled = settle(question(), [client], is_withdrawn=is_asked.is_set)
    assert settled.answer is Answer.NO and settled.outcome is SettlementOutcome.WITHDRAWN
    assert [event for event, _ in heard] == ["permissionNeeded", "permissionWithdrawn"]
    assert len({params["requestId"] for _, params in heard}) == 1
