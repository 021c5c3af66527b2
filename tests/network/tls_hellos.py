"""TLS hellos: real ones of OpenSSL, and made ones."""

import ssl
from contextlib import suppress


def real_hello(name: str | None, alpn: tuple[str, ...] = ()) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if alpn:
        context.set_alpn_protocols(list(alpn))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


def block(size: int, data: bytes) -> bytes:
    return len(data).to_bytes(size, "big") + data


def server_name(*names: bytes, kind: int = 0) -> bytes:
    return block(2, b"".join(bytes((kind,)) + block(2, name) for name in names))


def made_message(*extensions: tuple[int, bytes]) -> bytes:
    listed = b"".join(kind.to_bytes(2, "big") + block(2, content) for kind, content in extensions)
    body = b"\3\3" + bytes(32) + block(1, b"") + block(2, b"\x13\x01") + block(1, b"\0") + block(2, listed)
    return b"\1" + block(3, body)


def in_records(message: bytes, size: int = 1 << 14) -> bytes:
    pieces = [message[at : at + size] for at in range(0, len(message), size)]
    return b"".join(b"\x16\3\1" + block(2, piece) for piece in pieces)


def made_hello(*extensions: tuple[int, bytes]) -> bytes:
    return in_records(made_message(*extensions))
