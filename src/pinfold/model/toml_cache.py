"""Tables that pinfold ships as TOML, read the way Python reads its own modules.

A TOML parser takes 3 ms to load and 1 ms for a page, at each start. So a table is compiled once, as a module
is, and kept beside it in `__pycache__`: by Python's own means, which see to its age and to who may write it.
Where nothing can be kept there, the text is parsed each time.
"""

from _frozen_importlib_external import SourceFileLoader
from types import CodeType
from typing import Any, TypeVar

from msgspec import convert

from pinfold.model.msgspec_ready import ready

_T = TypeVar("_T")


class _Table(SourceFileLoader):
    def source_to_code(  # type: ignore[override]  # it is a static method in another base alone
        self, data: bytes, path: str, *, _optimize: int = -1
    ) -> CodeType:
        from tomllib import loads

        return compile(repr(loads(bytes(data).decode())), path, "eval")


def load_table(file: str) -> dict[str, Any]:
    """What the TOML file says; the file is ours, and its text is trusted as our code is."""
    code = _Table("table", file).get_code("table")
    table: dict[str, Any] = eval(code, {}) if code else {}  # noqa: S307
    return table


def load_as(kind: type[_T], file: str) -> _T:
    """The same as a value. May be called by any thread."""
    return convert(load_table(file), ready(kind))
