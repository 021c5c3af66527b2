"""How a client and a service prove to each other that they know the token, which neither sends.

A program that puts a socket in the service's place would otherwise get the token, every command and its
environment, and its answers would count. So each side first says a nonce, 32 random bytes. The service then
proves itself before the client says anything else:

    client -> challenge   {nonce: C}
    service <-            {nonce: S, proof: HMAC(token, "pinfold service" C S)}
    client -> initialize  {proof: HMAC(token, "pinfold client" C S), ...}

HMAC is with SHA-256, each text is ASCII, nonces and proofs are in lowercase hex. Facts:
- The sides have different words, so that no proof of one serves as the other's (reflection).
- Both nonces are in both proofs, so that neither serves again (replay), and have one length, so that no other
  pair gives the same text.
"""

import hmac
import re
import secrets

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


def is_same(told: str, expected: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(told.encode("utf-8", "surrogatepass"), expected.encode())
