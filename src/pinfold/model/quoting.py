"""A word as a shell line would have to spell it."""

PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=+,%@")


def quoted(word: str) -> str:
    if word and set(word) <= PLAIN:
        return word
    return "'" + word.replace("'", "'\\''") + "'"
