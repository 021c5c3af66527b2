"""A short name for a value: two values have the same digest only if they are equal."""

from msgspec import to_builtins


def digest(*values: object) -> str:
    """The digest of structs and the values they hold; the order of a dict's entries does not count."""
    # Imported here: it loads OpenSSL, and most commands raise no question.
    from hashlib import sha256

    # Not JSON: paths and commands may hold lone surrogates, which it cannot carry.
    plain = repr(to_builtins(values, order="deterministic"))
    return sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:32]
