"""Bytes in any pieces."""

from collections.abc import Callable, Iterator

from hypothesis import strategies as st

from pinfold.network.refusal import Malformed


def cut(data: bytes, places: list[int]) -> Iterator[bytes]:
    """The bytes, cut at these places."""
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    start = 0
    for end in ends:
        if end > start:
            yield data[start:end]
        start = end


PLACES = st.lists(st.integers(0, 4096), max_size=6)


def outcome(feed: Callable[[bytes], object], pieces: Iterator[bytes]) -> str:
    """`fine`, or `malformed`; anything else is a fault of ours and goes through."""
    try:
        for piece in pieces:
            feed(piece)
    except Malformed:
        return "malformed"
    return "fine"
