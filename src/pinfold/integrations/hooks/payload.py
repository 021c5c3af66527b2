"""Reads fields out of a payload that an agent sent. What is there must be what the agent says it is."""

from collections.abc import Mapping

from msgspec import DecodeError, json

from pinfold.integrations.hooks.hook_call import MalformedError

Payload = Mapping[str, object]


def decoded(data: bytes) -> Payload:
    """The one JSON object in the bytes."""
    try:
        value = json.decode(data)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(f"what the agent sent is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise MalformedError("what the agent sent is no JSON object")
    return value


def text(payload: Payload, *names: str) -> str:
    """The first of these fields that is there; it must be."""
    found = optional(payload, *names)
    if not found:
        raise MalformedError(f"there is no `{names[0]}` in what the agent sent")
    return found


def optional(payload: Payload, *names: str) -> str:
    for name in names:
        value = payload.get(name)
        if isinstance(value, str):
            return value
        if value is not None:
            raise MalformedError(f"`{name}` is no text")
    return ""


def table(payload: Payload, name: str) -> Payload:
    """A field that is an object; one that is missing is an empty one."""
    value = payload.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedError(f"`{name}` is no object")
    return value


def texts(payload: Payload, name: str) -> tuple[str, ...]:
    value = payload.get(name) or []
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise MalformedError(f"`{name}` is no list of texts")
    return tuple(value)


def directory(payload: Payload, environ: Mapping[str, str], *names: str) -> str:
    """Where the agent is: it must say, and in full."""
    found = optional(payload, "cwd") or next((environ[name] for name in names if environ.get(name)), "")
    if not found.startswith("/") or "\0" in found:
        raise MalformedError("the agent does not say in which directory it is")
    return found
