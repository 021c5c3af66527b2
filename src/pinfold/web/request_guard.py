"""Which requests the page answers. Pure.

Facts that shape it:
- A page of any site may send requests to 127.0.0.1, and a name of any site may be made to lead there (DNS
  rebinding). The browser then says that name in `Host`, and the page's own origin in `Origin`.
- Cookies know no ports: one of ours would be sent to every server on 127.0.0.1, such as one that an agent
  runs and a person looks at (`network.publish`). `SameSite` does not help: ports are no part of a site.
- A header that a form cannot send makes a browser ask first (CORS preflight), and we never answer that.
- What follows `#` in an address is not sent to any server.
- What a server has left in the browser (service workers, cached files) answers for the next server on its
  host and port, and reads what follows `#` there.

What this means for us: no cookies. The token comes in the fragment, is kept for the one tab, and is sent in
`Authorization`. Host, Origin and Sec-Fetch-Site must be our own, where the browser says them. And we are at
another of loopback's addresses each time, which no server has used before.
"""

import hmac
from collections.abc import Sequence
from typing import NamedTuple, Protocol

API = "/api/"
LOOPBACK = "127.0.0.1"
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class RequestRejection(NamedTuple):
    status: int
    why: str


class Headers(Protocol):
    def get_all(self, name: str) -> Sequence[str] | None: ...


def rejection_of(
    method: str, path: str, headers: Headers, own: str, port: int, token: str
) -> RequestRejection | None:
    """Why a request is not answered; None if it is.

    `own` is where we listen; a browser behind a forwarded port uses one of the usual names.
    """
    hosts = [f"{name}:{port}" for name in (own, LOOPBACK, "localhost")]
    host = _only(headers, "Host")
    if host not in hosts:
        return RequestRejection(421, "this is not the host that you asked for")
    origin = _only(headers, "Origin", f"http://{host}")
    if origin != f"http://{host}" or (method == "POST" and not headers.get_all("Origin")):
        return RequestRejection(403, "another page's request")
    if not path.startswith(API):
        return None
    if _only(headers, "Sec-Fetch-Site", "same-origin") != "same-origin":
        return RequestRejection(403, "another page's request")
    said = _only(headers, "Authorization")
    if not hmac.compare_digest(said.encode("utf-8", "replace"), f"Bearer {token}".encode()):
        return RequestRejection(401, "the token is not ours: open the address that `pinfold web` prints")
    if method == "POST" and _only(headers, "Content-Type") != "application/json":
        return RequestRejection(415, "an answer is JSON")
    return None


def _only(headers: Headers, name: str, default: str = "") -> str:
    """The one value; of several, none is believed."""
    values = headers.get_all(name) or ()
    return default if not values else values[0] if len(values) == 1 else ""
