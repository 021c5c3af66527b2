"""Why a client and a service may trust a unix socket: where it may lie, and how each side proves itself.

A program that puts a socket in the service's place would get the token, every command and its environment,
and its answers would count. So no command may be able to write where the socket lies, and each side proves
that it knows the token without sending it. Each sends a nonce, 32 random bytes, and the service proves itself
first:

    client -> challenge   {nonce: C}
    service <-            {nonce: S, proof: HMAC(token, "pinfold service" C S)}
    client -> initialize  {proof: HMAC(token, "pinfold client" C S), ...}

HMAC is with SHA-256, each text is ASCII, nonces and proofs are in lowercase hex. Facts:
- The sides have different words, so that no proof of one serves as the other's (reflection).
- Both nonces are in both proofs, so that neither serves again (replay), and have one length, so that no other
  pair gives the same text.
"""

import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterable, Mapping

from pinfold.model.errors import PinfoldError

CLIENT, SERVICE = "pinfold client", "pinfold service"
_NONCE = re.compile(r"[0-9a-f]{64}", re.ASCII)


def new_nonce() -> str:
    return secrets.token_hex(32)


def is_nonce(text: str) -> bool:
    return _NONCE.fullmatch(text) is not None


def proof_of(token: str, side: str, client_nonce: str, service_nonce: str) -> str:
    """Preconditions: both are nonces, and the token is not empty."""
    text = f"{side}{client_nonce}{service_nonce}"
    return hmac.new(token.encode(), text.encode(), "sha256").hexdigest()


def is_same(received: str, expected: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(received.encode("utf-8", "surrogatepass"), expected.encode())


def require_private_directory(path: str, environ: Mapping[str, str]) -> None:
    """Raises where every user may create names: another user could create the socket first."""
    directory = os.path.dirname(os.path.realpath(path))
    try:
        is_open_to_all = os.stat(directory).st_mode & stat.S_IWOTH
    except OSError:
        return  # `bind` will report what is wrong
    if is_open_to_all:
        raise PinfoldError(f"{path}: every user may create files in {directory}; {_instead(environ)}")


def require_out_of_reach(path: str, writable: Iterable[str], environ: Mapping[str, str]) -> None:
    """Raises if commands that may write to these places could replace the socket and answer instead."""
    from pinfold.policy.paths import contains
    from pinfold.state.directory import state_directory

    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    if contains(os.path.realpath(state_directory(environ)), real):
        return  # the state directory is hidden from every command
    if within := next((each for each in writable if contains(os.path.realpath(each), real)), ""):
        raise PinfoldError(
            f"{path}: commands may write to {within}, so one could put another socket there; "
            f"{_instead(environ)}"
        )


def _instead(environ: Mapping[str, str]) -> str:
    from shlex import quote

    from pinfold.state.directory import state_directory

    ours = os.path.join(state_directory(environ), "serve.sock")
    return f"listen where no command can write: pinfold serve --socket {quote(ours)}"
