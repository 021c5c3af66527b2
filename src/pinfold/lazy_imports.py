"""Loads argparse and msgspec without the modules that they import and Pinfold never uses.

Facts, measured on a cold start:
- msgspec looks for `typing_extensions` before `typing`, asks `uuid` (which brings `platform`) and `decimal`
  for one type each, and `datetime` for the types that `_datetime` has; its JSON schemas bring `textwrap`.
- argparse brings `gettext`, which looks for translations of argparse's own words and brings `locale`.
Of it we use the schemas alone, for `pinfold mcp`; all together it costs as much as half a start of Python.

So each of these has a stand-in for the time of the import; a later import gets the module itself. Only
the program `pinfold` does this: in a host's process the modules are the host's.
"""

import sys
from importlib import import_module
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def _later(name: str) -> "Callable[..., object]":
    """A function of msgspec's that is loaded when it is called."""

    def call(*args: object, **options: object) -> object:
        # The package has kept its stand-in for this one as an attribute, which would be found first.
        vars(sys.modules["msgspec"])["inspect"] = import_module("msgspec.inspect")
        return getattr(import_module("msgspec._json_schema"), name)(*args, **options)

    return call


_NAMES: dict[str, dict[str, dict[str, object]]] = {
    "argparse": {
        "gettext": {"gettext": str, "ngettext": lambda one, many, count: one if count == 1 else many}
    },
    "msgspec": {
        "uuid": {"UUID": type("UUID", (), {}), "SafeUUID": type("SafeUUID", (), {"unknown": None})},
        "decimal": {"Decimal": type("Decimal", (), {})},
        "msgspec.inspect": {},
        "msgspec._json_schema": {name: _later(name) for name in ("schema", "schema_components")},
    },
}


def load_light(*wanted: str) -> None:
    """Loads these, or both; one that cannot do without the real things gets them."""
    for name in wanted or _NAMES:
        names = _NAMES[name]
        standing: dict[str, ModuleType | None] = {other: _stand_in(other, names[other]) for other in names}
        if name == "msgspec":
            standing |= {"typing_extensions": None, "datetime": import_module("_datetime")}
        _load(name, {other: module for other, module in standing.items() if other not in sys.modules})


def _load(name: str, standing: dict[str, ModuleType | None]) -> None:
    sys.modules.update(standing)  # type: ignore[arg-type]  # None is how a module is made absent
    try:
        import_module(name)
    except (ImportError, AttributeError):
        # Another version of it wants more: the next import gets the whole module.
        for loaded in [each for each in sys.modules if each.partition(".")[0] == name]:
            del sys.modules[loaded]
    finally:
        for other in standing:
            sys.modules.pop(other, None)


def _stand_in(name: str, names: dict[str, object]) -> ModuleType:
    module = ModuleType(name)
    vars(module).update(names)
    return module
