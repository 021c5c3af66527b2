"""Compiles rules about system calls to the BPF program that the kernel runs before each call.

A rule names calls, states conditions on their arguments, and gives an action. Of the rules for one call, the
first whose conditions hold decides. A call is allowed if no rule holds, but numbers above the newest known
call are ENOSYS. Two checks come before all rules, since a number means nothing without them: the
architecture, and x32.

Facts about seccomp's BPF (Documentation/userspace-api/seccomp_filter.rst):
- It sees the number, the architecture and six arguments of 64 bits, in words of 32 bits, and follows no
  pointer.
- Jumps go forward only. A conditional one reaches 255 instructions, an unconditional one any number.
- Where the kernel takes an int, it drops the upper half of the register. A comparison of all 64 bits could be
  passed by setting some bit there. Only pointers and sizes are wider.
- The kernel finds out which numbers are allowed for any arguments, and does not run the program for them
  (5.11). So only the calls that rules name pay: a dozen comparisons to find each among the others, some 10
  ns, except for the one that is looked for first.
- A tracer that skips a call sets its number to -1, which the program then sees.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pinfold.kernel.seccomp import RET_ALLOW, RET_ERRNO, RET_KILL_PROCESS
from pinfold.kernel.syscall import AUDIT_ARCH, NUMBERS, X32_BIT

LOAD = 0x20  # BPF_LD | BPF_W | BPF_ABS
AND = 0x54  # BPF_ALU | BPF_AND | BPF_K
JUMP = 0x05  # BPF_JMP | BPF_JA
EQUAL = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
AT_LEAST = 0x35  # BPF_JMP | BPF_JGE | BPF_K
RETURN = 0x06  # BPF_RET | BPF_K

# struct seccomp_data
NUMBER_AT = 0
ARCHITECTURE_AT = 4
ARGUMENTS_AT = 16

ALL_BITS = 0xFFFFFFFF
ENOSYS = 38


class Instruction(NamedTuple):
    """struct sock_filter"""

    code: int
    yes: int
    no: int
    value: int


class Condition(NamedTuple):
    """One 32-bit word of an argument, masked, is one of the values, or none of them."""

    argument: int
    values: tuple[int, ...]
    mask: int = ALL_BITS
    none_of: bool = False
    upper: bool = False
    """Whether the condition is about the upper half of the argument."""


class CallRule(NamedTuple):
    """The action for these calls if every condition holds."""

    calls: tuple[str, ...]
    action: int
    when: tuple[Condition, ...] = ()


def errno(number: int) -> int:
    """The action that makes a call fail with an error."""
    return RET_ERRNO | number


Chain = tuple[CallRule, ...]
# Assembly: an instruction that jumps to labels, or a label on a line of its own.
Line = Instruction | tuple[int, int, str, str] | str


def compile_rules(rules: Iterable[CallRule], architecture: str, most_frequent: str = "") -> list[Instruction]:
    """The program for an architecture. Calls that it never had are left out; a misspelt one is an error.

    The most frequent call is looked for first.
    """
    chains = _chains(rules, architecture)
    blocks: dict[Chain, str] = {}
    starts = [(0, _ALLOWED)]
    for number in sorted(chains):
        # Each number is an interval of its own, and the numbers after it are allowed again.
        if starts[-1][0] == number:
            starts.pop()
        starts += [
            (number, blocks.setdefault(chains[number], f"block {len(blocks)}")),
            (number + 1, _ALLOWED),
        ]
    beyond = max(NUMBERS[architecture].values()) + 1
    starts = [*(start for start in starts if start[0] < beyond), (beyond, _UNKNOWN)]
    lines = [*_checks(architecture)]
    first = NUMBERS[architecture].get(most_frequent, -1)
    if first in chains:
        lines += [(EQUAL, first, "first", "others"), "first", _jump(blocks[chains[first]]), "others"]
    lines += _search(_merged(starts))
    for chain, label in blocks.items():
        lines += [label, *_block(chain, label)]
    lines += [
        _ALLOWED,
        _return(RET_ALLOW),
        _UNKNOWN,
        _return(errno(ENOSYS)),
        _FOREIGN,
        _return(RET_KILL_PROCESS),
    ]
    return _assemble(lines)


_ALLOWED, _UNKNOWN, _FOREIGN = "allowed", "unknown", "foreign"


def _chains(rules: Iterable[CallRule], architecture: str) -> dict[int, Chain]:
    """The rules of each call in their order, by the call's number."""
    known = {name for table in NUMBERS.values() for name in table}
    chains: dict[int, Chain] = {}
    for rule in rules:
        for call in rule.calls:
            if call not in known:
                raise ValueError(f"no such system call: `{call}`")
            number = NUMBERS[architecture].get(call)
            if number is not None:
                chains[number] = (*chains.get(number, ()), rule._replace(calls=()))
    return chains


def _merged(starts: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    return [start for index, start in enumerate(starts) if not index or start[1] != starts[index - 1][1]]


def _checks(architecture: str) -> Iterator[Line]:
    yield Instruction(LOAD, 0, 0, ARCHITECTURE_AT)
    yield (EQUAL, AUDIT_ARCH[architecture], "native", "other")
    yield from ("other", _jump(_FOREIGN), "native")
    yield Instruction(LOAD, 0, 0, NUMBER_AT)
    yield (EQUAL, ALL_BITS, "skipped", "number")
    yield from ("skipped", _jump(_ALLOWED), "number")
    if architecture == "x86_64":
        yield (AT_LEAST, X32_BIT, "x32", "ours")
        yield from ("x32", _jump(_UNKNOWN), "ours")


def _search(starts: Sequence[tuple[int, str]]) -> Iterator[Line]:
    """Finds the interval of the number by bisection."""
    if len(starts) == 1:
        yield _jump(starts[0][1])
        return
    middle = len(starts) // 2
    here = starts[middle][0]
    yield (AT_LEAST, here, f"far {here}", f"below {here}")
    yield from (f"far {here}", _jump(f"from {here}"), f"below {here}")
    yield from _search(starts[:middle])
    yield f"from {here}"
    yield from _search(starts[middle:])


def _block(chain: Chain, label: str) -> Iterator[Line]:
    for place, rule in enumerate(chain):
        onward = f"{label} after {place}"
        for index, condition in enumerate(rule.when):
            yield from _condition(condition, f"{label} rule {place} condition {index}", onward)
        yield _return(rule.action)
        if not rule.when:
            return
        yield onward
    yield _return(RET_ALLOW)


def _condition(condition: Condition, label: str, onward: str) -> Iterator[Line]:
    yield Instruction(LOAD, 0, 0, ARGUMENTS_AT + 8 * condition.argument + (4 if condition.upper else 0))
    if condition.mask != ALL_BITS:
        yield Instruction(AND, 0, 0, condition.mask)
    holds = f"{label} holds"
    for index, value in enumerate(condition.values):
        following = f"{label} value {index}"
        yield (EQUAL, value, onward if condition.none_of else holds, following)
        yield following
    if not condition.none_of:
        yield _jump(onward)
    yield holds


def _jump(label: str) -> Line:
    return (JUMP, 0, label, label)


def _return(action: int) -> Instruction:
    return Instruction(RETURN, 0, 0, action)


def _assemble(lines: Iterable[Line]) -> list[Instruction]:
    """Replaces labels by distances."""
    code: list[Instruction | tuple[int, int, str, str]] = []
    labels: dict[str, int] = {}
    for line in lines:
        if isinstance(line, str):
            labels[line] = len(code)
        else:
            code.append(line)
    return [_resolved(line, place, labels) for place, line in enumerate(code)]


def _resolved(
    line: Instruction | tuple[int, int, str, str], place: int, labels: dict[str, int]
) -> Instruction:
    if isinstance(line, Instruction):
        return line
    operation, value, yes, no = line
    if operation == JUMP:
        return Instruction(JUMP, 0, 0, labels[yes] - place - 1)
    far = Instruction(operation, labels[yes] - place - 1, labels[no] - place - 1, value)
    if max(far.yes, far.no) > 255:
        raise ValueError(f"a jump to `{yes}` or `{no}` is too long")
    return far
