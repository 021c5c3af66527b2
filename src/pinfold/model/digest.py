"""A short name for a value: two values have the same one only if they are the same."""

from msgspec import to_builtins


def digest(*values: object) -> str:
    """Of structs and what they are made of; the order of a table's entries does not count."""
    # Imported here: it brings OpenSSL along, and nobody is asked about most commands.
    from hashlib import sha256

    # Not JSON: paths and commands may hold lone surrogates, which it cannot carry.
    plain = repr(to_builtins(values, order="deterministic"))
    return sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()[:32]
