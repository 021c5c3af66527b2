"""Ports that lead in."""

import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pinfold.model.settings import Settings
from pinfold.network import port_forward
from pinfold.network.host.publish import Publishing


def test_two_commands_at_once_publish_a_port_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    twice = threading.Event()

    def listeners(port: int) -> list[Any]:
        asked.append(port)
        if len(asked) > 1:
            twice.set()
            raise OSError(98, "Address already in use")
        twice.wait(0.5)
        return []

    monkeypatch.setattr(port_forward, "listen_on", listeners)
    settings = Settings()
    troubles: list[str] = []
    ledger: Any = SimpleNamespace(trouble=troubles.append)
    session: Any = SimpleNamespace(settings=settings, last_ledger=ledger)
    publishing = Publishing(session, lambda *_: None, lambda _: None)
    nowhere: Any = None
    threads = [threading.Thread(target=publishing.publish, args=((3000,), nowhere)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked == [3000] and not troubles


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_port_is_published_where_nobody_else_is_found_by_its_name(family: int, address: str) -> None:
    """Another user's server on the other family would be what `localhost` leads to."""
    try:
        taken = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip(f"there is no {address} here")
    with taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match="in use"):
            port_forward.listen_on(port)
    for listener in port_forward.listen_on(port):
        listener.close()
