"""Typed messages, and their plain form for `channel`.

A message is an instance of a subclass of `WireMessage`, which has annotated fields, a tag (the name of the
class) and a place in `KINDS`. On the wire it is a list, the tag and then the fields, where a tuple stays a
tuple. So nothing that a field holds can be taken for a message.

Facts: the host starts anew for every hook, and a class of `typing.NamedTuple` takes it 60 us to make, one of
these 10 us. The keeper and its children know no msgspec.
"""

from typing import Any, ClassVar, TypeVar, dataclass_transform

KINDS: "dict[str, type[WireMessage]]" = {}
"""Every kind of message that this process has imported, by its tag."""


@dataclass_transform(frozen_default=True)
class WireMessage:
    """A value with fields. Its kind counts when two are compared."""

    FIELDS: ClassVar[tuple[str, ...]] = ()
    NESTED: ClassVar[frozenset[str]] = frozenset()
    """The fields that may hold other messages."""

    def __init_subclass__(cls) -> None:
        hints = cls.__annotations__
        cls.FIELDS = (*cls.FIELDS, *hints)
        setattr(cls, "__match_args__", cls.FIELDS)  # noqa: B010  (a type checker has its own)
        cls.NESTED |= {name for name, hint in hints.items() if _may_hold_messages(hint)}
        if KINDS.setdefault(cls.__name__, cls) is not cls:
            raise TypeError(f"two messages are called {cls.__name__}")

    def __init__(self, *values: object, **named: object) -> None:
        fields = dict(zip(self.FIELDS, values, strict=False), **named)
        if len(fields) != len(values) + len(named):
            raise TypeError(f"too many values for {type(self).__name__}")
        for name in self.FIELDS[len(values) :]:
            if name not in named:
                fields[name] = getattr(type(self), name)  # its default; AttributeError if it has none
        if len(fields) != len(self.FIELDS):
            raise TypeError(f"{type(self).__name__} has other fields: {', '.join(self.FIELDS)}")
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__}.{name} cannot be changed")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((type(self), *self.values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.values()))})"

    def values(self) -> tuple[Any, ...]:
        """The fields in their order."""
        fields = self.__dict__
        return tuple([fields[name] for name in self.FIELDS])


AnyMessage = TypeVar("AnyMessage", bound=WireMessage)


def _may_hold_messages(hint: object) -> bool:
    if isinstance(hint, type) and not hasattr(hint, "__args__"):
        return issubclass(hint, WireMessage)
    return any(map(_may_hold_messages, getattr(hint, "__args__", ())))


def encode(message: WireMessage) -> list[object]:
    """The plain form of a message."""
    nested = message.NESTED
    fields = message.__dict__
    plain = [_encode_field(fields[name]) if name in nested else fields[name] for name in message.FIELDS]
    return [type(message).__name__, *plain]


def _encode_field(value: object) -> object:
    if isinstance(value, WireMessage):
        return encode(value)
    return tuple(map(_encode_field, value)) if isinstance(value, tuple) else value


def decode(plain: list[Any]) -> WireMessage:
    """The message of a plain form. Raises ValueError for a kind that this process does not know."""
    tag, *values = plain
    kind = KINDS.get(tag)
    if kind is None or len(values) != len(kind.FIELDS):
        raise ValueError(f"a message of a kind that is not known here: {tag}")
    if kind.NESTED:
        named = zip(kind.FIELDS, values, strict=True)
        values = [_decode_field(value) if name in kind.NESTED else value for name, value in named]
    message = object.__new__(kind)
    message.__dict__.update(zip(kind.FIELDS, values, strict=True))
    return message


def _decode_field(value: Any) -> object:
    if isinstance(value, list):
        return decode(value)
    return tuple(map(_decode_field, value)) if isinstance(value, tuple) else value
