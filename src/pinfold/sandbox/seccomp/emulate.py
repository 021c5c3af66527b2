"""Runs a filter program as the kernel would, on a call described by its numbers, and prints it for people.

For tests and golden files. It supports the instructions that `bpf` emits and rejects all others.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from pinfold.kernel.seccomp import RET_ALLOW, RET_ERRNO, RET_KILL_PROCESS, RET_USER_NOTIF
from pinfold.kernel.syscall import AUDIT_ARCH, NUMBERS
from pinfold.sandbox.seccomp.bpf import AND, AT_LEAST, EQUAL, JUMP, LOAD, RETURN, Instruction

_ACTION_FULL = 0xFFFF0000
_ERRORS = {
    1: "EPERM",
    12: "ENOMEM",
    22: "EINVAL",
    38: "ENOSYS",
    92: "ENOPROTOOPT",
    93: "EPROTONOSUPPORT",
    94: "ESOCKTNOSUPPORT",
    95: "EOPNOTSUPP",
    97: "EAFNOSUPPORT",
}


class CallData(NamedTuple):
    """struct seccomp_data"""

    number: int
    architecture: int
    pointer: int = 0
    arguments: tuple[int, ...] = ()

    def packed(self) -> bytes:
        arguments = (*self.arguments, 0, 0, 0, 0, 0, 0)[:6]
        words = [argument & 0xFFFFFFFFFFFFFFFF for argument in (self.pointer, *arguments)]
        return struct.pack("=II7Q", self.number & 0xFFFFFFFF, self.architecture, *words)


def run(program: Sequence[Instruction], data: CallData) -> int:
    """The action that the program returns."""
    memory = data.packed()
    accumulator, place = 0, 0
    while True:
        code, yes, no, value = program[place]
        place += 1
        if code == LOAD:
            (accumulator,) = struct.unpack_from("=I", memory, value)
        elif code == AND:
            accumulator &= value
        elif code == JUMP:
            place += value
        elif code == EQUAL:
            place += yes if accumulator == value else no
        elif code == AT_LEAST:
            place += yes if accumulator >= value else no
        elif code == RETURN:
            return value
        else:
            raise ValueError(f"unknown instruction {code:#x} at {place - 1}")


def call(program: Sequence[Instruction], architecture: str, name: str, *arguments: int) -> str:
    """What the program does with a call, as `action_text` names it."""
    number = NUMBERS[architecture][name]
    return action_text(run(program, CallData(number, AUDIT_ARCH[architecture], 0, arguments)))


def action_text(action: int) -> str:
    """`allow`, `notify`, `kill`, or the name of the errno."""
    if action & _ACTION_FULL == RET_ERRNO:
        return _ERRORS.get(action & 0xFFFF, str(action & 0xFFFF))
    return {RET_ALLOW: "allow", RET_USER_NOTIF: "notify", RET_KILL_PROCESS: "kill"}.get(action, hex(action))


def dump(program: Sequence[Instruction]) -> str:
    """The program for people: one line per instruction, with the targets of jumps."""
    return "".join(f"{place:4} {_text(place, line)}\n" for place, line in enumerate(program))


def _text(place: int, line: Instruction) -> str:
    code, yes, no, value = line
    if code == LOAD:
        words = {0: "number", 4: "architecture"}
        argument, upper = divmod(value - 16, 8)
        return f"load {words.get(value) or f'argument {argument}' + (' upper' if upper else '')}"
    if code == AND:
        return f"and {value:#x}"
    if code == JUMP:
        return f"go {place + 1 + value}"
    if code == RETURN:
        return f"return {action_text(value)}"
    sign = {EQUAL: "==", AT_LEAST: ">="}[code]
    return f"if {sign} {value:#x} go {place + 1 + yes} else {place + 1 + no}"
