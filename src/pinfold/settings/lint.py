"""Warnings about settings that are valid and yet cannot mean what their author thinks.

Pure: reads `Settings`. An entry that can never take effect is the usual sign of a rule that was
written the wrong way round.
"""

from collections.abc import Callable, Iterator

from pinfold.model.escape_text import first_invisible, visible
from pinfold.model.script import Shape
from pinfold.model.settings import Rule, Settings
from pinfold.settings.parse_layer import shown_origin


def warnings(settings: Settings) -> tuple[str, ...]:
    """One line each, most telling first; nothing untrusted in them can disturb a terminal."""
    rules, excluded = settings.commands, settings.sandbox.excluded_commands
    return (
        *_shadowed("commands.allow", rules.allow, "commands.deny", rules.deny),
        *_shadowed("commands.allow", rules.allow, "commands.ask", rules.ask),
        *_shadowed("sandbox.excluded_commands", excluded, "commands.deny", rules.deny),
        *_shadowed("commands.ask", rules.ask, "commands.deny", rules.deny),
        *_repeated("commands.allow", rules.allow, _is_permission_over),
        *_repeated("sandbox.excluded_commands", excluded, _is_permission_over),
        *_repeated("commands.ask", rules.ask, is_restriction_over),
        *_repeated("commands.deny", rules.deny, is_restriction_over),
        *_relative_hooks(settings),
        *_invisible(settings),
    )


def _shadowed(name: str, rules: tuple[Rule, ...], other: str, stronger: tuple[Rule, ...]) -> Iterator[str]:
    for rule in rules:
        above = next((above for above in stronger if is_restriction_over(above.shape, rule.shape)), None)
        if above is not None:
            yield (
                f"{shown_origin(rule.origin)}: `{visible(rule.text)}` in `{name}` never takes effect:"
                f" `{visible(above.text)}` in `{other}` ({shown_origin(above.origin)}) covers it"
            )


def _repeated(name: str, rules: tuple[Rule, ...], covers: Callable[[Shape, Shape], bool]) -> Iterator[str]:
    """Entries that an earlier or shorter entry of the same list makes needless."""
    for index, rule in enumerate(rules):
        for position, wider in enumerate(rules):
            is_mutual = covers(rule.shape, wider.shape)
            if covers(wider.shape, rule.shape) and position != index and (position < index or not is_mutual):
                yield (
                    f"{shown_origin(rule.origin)}: `{visible(rule.text)}` in `{name}` adds nothing:"
                    f" `{visible(wider.text)}` ({shown_origin(wider.origin)}) says it already"
                )
                break


def _relative_hooks(settings: Settings) -> Iterator[str]:
    for hook in settings.hooks.before_command:
        if not hook.command[0].startswith(("/", "~")):
            shown = visible(hook.command[0])
            yield (
                f"{shown_origin(hook.origin)}: the hook `{shown}` is not an absolute path;"
                " every command is denied"
            )


def _invisible(settings: Settings) -> Iterator[str]:
    for rule in settings.commands.allow + settings.commands.ask + settings.commands.deny:
        if first_invisible(rule.reason):
            shown = visible(rule.text)
            yield f"{shown_origin(rule.origin)}: the reason of `{shown}` contains an invisible character"


def is_restriction_over(above: Shape, rule: Shape) -> bool:
    """Whether everything that begins as `rule` does is matched by the restrictive `above`."""
    return (
        above.program == rule.program
        and set(above.flags) <= set(rule.flags)
        and _is_prefix(above.operands, rule.operands)
    )


def _is_permission_over(wider: Shape, rule: Shape) -> bool:
    """Permissive rules compare words exactly, and a rule that names a risky option accepts it: only the
    same words are surely the same permission."""
    return wider.words == rule.words or (
        _is_prefix(wider.words, rule.words) and not any(word.startswith("-") for word in rule.words)
    )


def _is_prefix(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    return long[: len(short)] == short
