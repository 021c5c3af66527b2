"""What may be written for each kind of value, and what it becomes.

Each check takes a value as `tomllib` gave it and returns it in canonical form, or raises `BadValue`.
Nothing here knows files, layers or which key is being checked.
"""

import re
from collections.abc import Callable, Iterator

from pinfold.model.escape_text import visible
from pinfold.settings.keys import Key, ValueKind


class BadValue(ValueError):  # noqa: N818 - it never leaves this package
    """The value is not valid here; `path` leads to the part that is at fault."""

    def __init__(self, message: str, help: str = "", path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.help = help
        self.path = path


_UNITS_OF_TIME = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}
_UNITS_OF_SIZE = {
    "": 1, "B": 1,
    "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
    "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40,
}  # fmt: skip
LARGEST = 2**62
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_NAME_PATTERN = r"[A-Za-z0-9_*?]+"
SOMEBODYS = r"~[A-Za-z_][^/]*/"
"""How a path in a named user's home begins, for a shell."""
VARIABLE = rf"\$({_NAME}/|\{{{_NAME}\}}(/|$))"
"""How one begins that a variable is part of."""
SOCKETS = "network.unix_sockets"
WEBHOOK = r"(https://[A-Za-z0-9._-]+|http://(127\.0\.0\.1|localhost))(:[0-9]{1,5})?(/[!-~]*)?"
PROXY_WORDS = ("none", "environment")
PROXY = r"http://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}/?"
_NUMERALS, _LETTERS = "0123456789.", "smhd"
_DURATION_HELP = 'write "10m", "90s" or "1h30m"'
_ENDLESS = ("limits.timeout", "approvals.keep")
"""Durations that an empty text leaves without an end."""
_SIZE_HELP = 'write "512MB" or "2GiB", or "" for no limit'


def parse_duration(text: str) -> float:
    """`1h30m` in seconds."""
    seconds, rest = 0.0, text
    while rest or not text:
        number, rest = _split(rest, _NUMERALS)
        unit, rest = _split(rest, _LETTERS)
        if not _is_number(number) or unit not in _UNITS_OF_TIME or len(text) > 32:
            raise BadValue(f"`{visible(text[:40])}` is not a duration")
        seconds += float(number) * _UNITS_OF_TIME[unit]
    return seconds


def parse_size(text: str) -> int:
    """`2GiB` in bytes; `MB` counts by thousands, `MiB` and a bare `M` by 1024."""
    number, rest = _split(text, _NUMERALS)
    unit = rest.removeprefix(" ")
    if not _is_number(number) or unit not in _UNITS_OF_SIZE or len(text) > 32:
        raise BadValue(f"`{visible(text[:40])}` is not a size", _SIZE_HELP)
    return int(float(number) * _UNITS_OF_SIZE[unit])


def _split(text: str, characters: str) -> tuple[str, str]:
    """What it begins with of these, and the rest; no pattern, which would be compiled at each start."""
    rest = text.lstrip(characters)
    return text[: len(text) - len(rest)], rest


def _is_number(text: str) -> bool:
    whole, point, fraction = text.partition(".")
    return whole.isdecimal() and (fraction.isdecimal() or not point)


def check_scalar(key: Key, value: object) -> object:
    """The canonical value of a scalar key: a bool, a word, seconds, bytes, a count, or None for no limit."""
    return _SCALAR_CHECKS[key.kind](key, value)


def check_entries(key: Key, value: object) -> Iterator[tuple[tuple[str | int, ...], object]]:
    """The path within the value and the canonical form of each entry of a list or table key."""
    if key.kind in (ValueKind.TEXT_TABLE, ValueKind.LIST_TABLE):
        if not isinstance(value, dict):
            raise BadValue(f"`{key.name}` must be a table, not {_told(value)}", _EXAMPLES[key.kind])
        for name, inner in value.items():
            yield (name,), (name, _at(name, _ENTRY_CHECKS[key.kind], inner, name))
        return
    if not isinstance(value, list):
        raise BadValue(f"`{key.name}` must be a list, not {_told(value)}", _EXAMPLES[key.kind])
    for index, inner in enumerate(value):
        yield (index,), _at(index, _ENTRY_CHECKS[key.kind], inner, key.name)


def _at(step: str | int, check: Callable[[object, str], object], value: object, name: str) -> object:
    try:
        return check(value, name)
    except BadValue as bad:
        raise BadValue(bad.message, bad.help, (step, *bad.path)) from None


def _told(value: object) -> str:
    """What a value is, in the words of TOML."""
    names = {bool: "true or false", str: "a string", int: "a number", float: "a number", list: "a list"}
    return names.get(type(value), "a table" if isinstance(value, dict) else "a date")


def _bool(key: Key, value: object) -> object:
    if not isinstance(value, bool):
        quoted = "; write it without quotes" if value in ("true", "false") else ""
        raise BadValue(f"`{key.name}` must be true or false, not {_told(value)}{quoted}")
    return value


def _word(key: Key, value: object) -> object:
    if not isinstance(value, str) or value not in key.words:
        shown = f"`{visible(value[:60])}`" if isinstance(value, str) else _told(value)
        raise BadValue(f"`{key.name}` cannot be {shown}", f"one of {', '.join(key.words)}")
    return value


def _duration(key: Key, value: object) -> object:
    said = f'{_DURATION_HELP}, or "" for no limit' if key.name in _ENDLESS else _DURATION_HELP
    if value == "" and key.name in _ENDLESS:
        return None
    if isinstance(value, str):
        try:
            value = parse_duration(value)
        except BadValue as error:
            raise BadValue(error.message, said) from None
    return _number(key, value, float, said)


def _size(key: Key, value: object) -> object:
    if value == "":
        return None
    if isinstance(value, str):
        value = parse_size(value)
    return _number(key, value, int, _SIZE_HELP)


def _count(key: Key, value: object) -> object:
    return None if value == "" else _number(key, value, int, "write a number greater than 0")


def _number(key: Key, value: object, made: type, help: str) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float) or (made is int and value != value // 1):
        raise BadValue(f"`{key.name}` must be {key.kind.value}, not {_told(value)}", help)
    if not 0 < value < LARGEST:  # false for nan too
        raise BadValue(f"`{key.name}` is {'too large' if value > 0 else 'out of range'}", help)
    return made(value)


def _text(value: object, _: str = "") -> object:
    if not isinstance(value, str):
        raise BadValue(f"must be a string, not {_told(value)}", 'write it in quotes: "..."')
    if not value.strip():
        raise BadValue("an entry is empty", "remove it")
    if "\0" in value:
        raise BadValue("an entry contains a NUL character")
    return value


def _host(value: object, _: str) -> object:
    text = str(_text(value))
    if "://" in text or any(c.isspace() for c in text):
        raise BadValue(f"`{visible(text[:60])}` is not a host", "write the name alone, such as `example.com`")
    return text


def _listed_path(value: object, key: str) -> object:
    """Nothing is filled in but `~`, and for sockets a variable as a whole: an entry that a shell would read
    otherwise would be silently about another path."""
    text = str(_text(value))
    if re.match(SOMEBODYS, text):
        raise BadValue(
            (f"`{visible(text[:60])}`: only your own home, `~`, is expanded"), "write the whole path"
        )
    if re.match(VARIABLE, text) or (key != SOCKETS and re.fullmatch(rf"\${_NAME}", text)):
        raise BadValue(
            f"`{visible(text[:60])}`: environment variables are not expanded here",
            ("write `~/...`, or the whole path"),
        )
    return text


def _name_pattern(value: object, _: str) -> object:
    text = str(_text(value))
    if not re.fullmatch(_NAME_PATTERN, text):
        raise BadValue(f"`{visible(text[:60])}` is not a variable name", "such as `CI` or `AWS_*`")
    return text


def _port(value: object, _: str) -> object:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 65536:
        raise BadValue("a port must be a number from 1 to 65535")
    return value


def _hook(value: object, _: str) -> object:
    """One word is a program without arguments: it is never given to a shell."""
    if isinstance(value, str):
        return (_text(value),)
    if not isinstance(value, list) or not value:
        raise BadValue("a hook must be a program or a list of words", '["/usr/bin/check", "--strict"]')
    return tuple(_at(index, _text, word, "") for index, word in enumerate(value))


def _variable(value: object, name: str) -> object:
    if not re.fullmatch(_NAME, name):
        raise BadValue(f"`{visible(name[:60])}` is not a variable name")
    if not isinstance(value, str):
        raise BadValue(f"must be a string, not {_told(value)}", 'write it in quotes: "..."')
    if "\0" in value:
        raise BadValue("an entry contains a NUL character")
    return value


def _texts(value: object, _: str) -> object:
    if not isinstance(value, list):
        raise BadValue(f"must be a list of strings, not {_told(value)}")
    return tuple(_at(index, _text, text, "") for index, text in enumerate(value))


def _path(_: Key, value: object) -> object:
    if value == "":
        return value
    text = str(_text(value))
    if not text.startswith(("/", "~")):
        raise BadValue("must begin with / or ~", "a relative path would depend on the current directory")
    return text


def _proxy(key: Key, value: object) -> object:
    if value in PROXY_WORDS:
        return value
    text = str(_text(value))
    if "@" in text:
        raise BadValue(
            f"`{key.name}` cannot contain a password", "put `USER:PASSWORD` into PINFOLD_PROXY_CREDENTIALS"
        )
    if not re.fullmatch(PROXY, text):
        shown = visible(text[:60])
        raise BadValue(f"`{shown}` is not a proxy", "write `http://HOST:PORT`, `environment` or `none`")
    return text


def _url(_: Key, value: object) -> object:
    text = str(_text(value)) if value != "" else ""
    if text and not re.fullmatch(WEBHOOK, text):
        shown = visible(text[:60])
        raise BadValue(
            f"`{shown}` is no such address", "write `https://HOST/PATH`, or `http://127.0.0.1:PORT/PATH`"
        )
    return text


_SCALAR_CHECKS: dict[ValueKind, Callable[[Key, object], object]] = {
    ValueKind.BOOL: _bool,
    ValueKind.WORD: _word,
    ValueKind.DURATION: _duration,
    ValueKind.SIZE: _size,
    ValueKind.COUNT: _count,
    ValueKind.PATH: _path,
    ValueKind.PROXY: _proxy,
    ValueKind.URL: _url,
}
_ENTRY_CHECKS: dict[ValueKind, Callable[[object, str], object]] = {
    ValueKind.RULES: _text,
    ValueKind.TEXTS: _text,
    ValueKind.PATHS: _listed_path,
    ValueKind.HOSTS: _host,
    ValueKind.NAMES: _name_pattern,
    ValueKind.PORTS: _port,
    ValueKind.HOOKS: _hook,
    ValueKind.TEXT_TABLE: _variable,
    ValueKind.LIST_TABLE: _texts,
}
_EXAMPLES: dict[ValueKind, str] = {
    ValueKind.RULES: 'such as ["git status", "npm test"]',
    ValueKind.TEXTS: 'such as ["one", "two"]',
    ValueKind.PATHS: 'such as ["~/cache", "/srv/data"]',
    ValueKind.HOSTS: 'such as ["pypi.org", "*.example.com"]',
    ValueKind.NAMES: 'such as ["CI", "AWS_*"]',
    ValueKind.PORTS: "such as [3000, 8080]",
    ValueKind.HOOKS: 'such as [["/usr/bin/check", "--strict"]]',
    ValueKind.TEXT_TABLE: 'such as {CI = "1"}',
    ValueKind.LIST_TABLE: 'such as {npm = ["~/.npmrc"]}',
}
