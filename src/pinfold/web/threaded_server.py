"""A server with a thread for each client, and room for so many: whoever comes then is hung up on."""

from socketserver import ThreadingMixIn
from threading import BoundedSemaphore


class Crowd(ThreadingMixIn):
    daemon_threads = True
    room: BoundedSemaphore
    """Taken by whoever accepts a client."""

    def verify_request(self, request: object, client_address: object) -> bool:  # noqa: ARG002
        return self.room.acquire(blocking=False)

    def process_request_thread(self, request: object, client_address: object) -> None:
        try:
            super().process_request_thread(request, client_address)  # type: ignore[arg-type]
        finally:
            self.room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone in the midst of it: there is nobody to tell."""
