"""Loads structs: types that any thread may decode, and the TOML tables that pinfold ships.

Facts about msgspec 0.22, as tried: threads that decode or convert to one nested Struct for the first time,
all at once, end the process by SIGSEGV; one after another they do not. msgspec gathers what it must know of a
Struct at the first use, and the other threads see that half done. A decoder gathers it too.

A TOML parser takes 3 ms to load and 1 ms for a page, at each start. So a table is compiled once, as a Python
module is, and kept beside it in `__pycache__`. Python's own loader checks its age and its owner. Where the
directory cannot be written, the text is parsed each time.
"""

from _frozen_importlib_external import SourceFileLoader
from _thread import allocate_lock
from types import CodeType
from typing import Any, TypeVar

from msgspec import convert
from msgspec.json import Decoder

_T = TypeVar("_T")
_gathering = allocate_lock()
_gathered: set[object] = set()


def ready(kind: type[_T]) -> type[_T]:
    """Returns the type once any number of threads may decode or convert to it at a time."""
    if kind not in _gathered:
        with _gathering:
            Decoder(kind)
            _gathered.add(kind)
    return kind


class _Table(SourceFileLoader):
    def source_to_code(  # type: ignore[override]  # it is a static method in another base alone
        self, data: bytes, path: str, *, _optimize: int = -1
    ) -> CodeType:
        from tomllib import loads

        return compile(repr(loads(bytes(data).decode())), path, "eval")


def load_table(file: str) -> dict[str, Any]:
    """The content of a TOML file that Pinfold ships: its text is trusted as our code is."""
    code = _Table("table", file).get_code("table")
    table: dict[str, Any] = eval(code, {}) if code else {}  # noqa: S307
    return table


def load_as(kind: type[_T], file: str) -> _T:
    """The content of a shipped TOML file as a struct. Any thread may call it."""
    return convert(load_table(file), ready(kind))
