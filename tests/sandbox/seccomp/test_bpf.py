"""The compiler against a direct reading of the same rules."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinfold.kernel.seccomp import RET_ALLOW, RET_KILL_PROCESS, RET_USER_NOTIF
from pinfold.kernel.syscall import ARCHITECTURES, AUDIT_ARCH, NUMBERS, X32_BIT
from pinfold.sandbox.seccomp.bpf import (
    ALL_BITS,
    ENOSYS,
    RETURN,
    CallRule,
    Condition,
    Instruction,
    compile_rules,
    errno,
)
from pinfold.sandbox.seccomp.emulate import CallData, dump, run

words = st.sampled_from([0, 1, 2, 3, 0x10, 0x80000000, ALL_BITS])
conditions = st.builds(
    Condition,
    st.integers(0, 5),
    st.lists(words, max_size=4).map(tuple),
    st.sampled_from([ALL_BITS, 0xF, 0x80000001]),
    st.booleans(),
    st.booleans(),
)
names = st.sampled_from(["read", "write", "open", "openat", "clone", "clone3", "listns", "socket"])
rules = st.builds(
    CallRule,
    st.lists(names, min_size=1, max_size=4).map(tuple),
    st.sampled_from([errno(1), errno(95), RET_USER_NOTIF, RET_ALLOW]),
    st.lists(conditions, max_size=3).map(tuple),
)
halves = st.builds(lambda low, high: low | high << 32, words, words)


def judge(all_rules: list[CallRule], name: str, arguments: tuple[int, ...]) -> int:
    """The action of a call by evaluating the rules one by one."""
    for rule in all_rules:
        if name in rule.calls and all(holds(condition, arguments) for condition in rule.when):
            return rule.action
    return RET_ALLOW


def holds(condition: Condition, arguments: tuple[int, ...]) -> bool:
    word = arguments[condition.argument] >> (32 if condition.upper else 0) & ALL_BITS & condition.mask
    return (word in condition.values) != condition.none_of


@given(
    st.lists(rules, max_size=8),
    names,
    st.tuples(*[halves] * 6),
    st.sampled_from(ARCHITECTURES),
    names | st.just(""),
)
def test_the_program_says_what_the_rules_say(
    all_rules: list[CallRule], name: str, arguments: tuple[int, ...], architecture: str, most_frequent: str
) -> None:
    if name not in NUMBERS[architecture]:
        return
    data = CallData(NUMBERS[architecture][name], AUDIT_ARCH[architecture], 0, arguments)
    program = compile_rules(all_rules, architecture, most_frequent)
    assert run(program, data) == judge(all_rules, name, arguments)


@given(st.lists(rules, max_size=8), st.sampled_from(ARCHITECTURES), names)
def test_every_jump_goes_forward_and_lands(
    all_rules: list[CallRule], architecture: str, most_frequent: str
) -> None:
    program = compile_rules(all_rules, architecture, most_frequent)
    for place, line in enumerate(program):
        far = line.value if line.code == 0x05 else max(line.yes, line.no)
        assert place + 1 + far < len(program) or line.code == RETURN
        assert 0 <= line.yes <= 255 >= line.no >= 0
    assert program[-1].code == RETURN
    assert len(program) <= 4096


NO_RULES = compile_rules([], "x86_64")
CHECKS = [
    # number, architecture, action
    (0, AUDIT_ARCH["x86_64"], RET_ALLOW),
    (0, AUDIT_ARCH["aarch64"], RET_KILL_PROCESS),
    (0, 0x40000003, RET_KILL_PROCESS),  # AUDIT_ARCH_I386, by int 0x80
    (0, 0, RET_KILL_PROCESS),
    (0 | X32_BIT, AUDIT_ARCH["x86_64"], errno(ENOSYS)),
    (520 | X32_BIT, AUDIT_ARCH["x86_64"], errno(ENOSYS)),
    (0x7FFFFFFF, AUDIT_ARCH["x86_64"], errno(ENOSYS)),
    (0x80000000, AUDIT_ARCH["x86_64"], errno(ENOSYS)),
    (-1, AUDIT_ARCH["x86_64"], RET_ALLOW),  # a tracer skipped the call
    (470, AUDIT_ARCH["x86_64"], RET_ALLOW),
    (471, AUDIT_ARCH["x86_64"], errno(ENOSYS)),  # a call that did not exist when this was written
]


@pytest.mark.parametrize(("number", "architecture", "action"), CHECKS)
def test_what_is_checked_before_any_rule(number: int, architecture: int, action: int) -> None:
    assert run(NO_RULES, CallData(number, architecture)) == action


def test_a_misspelt_call_is_an_error() -> None:
    with pytest.raises(ValueError, match="`opneat`"):
        compile_rules([CallRule(("opneat",), errno(1))], "x86_64")


def test_a_call_the_architecture_never_had_is_left_out() -> None:
    assert compile_rules([CallRule(("open",), errno(1))], "aarch64") == compile_rules([], "aarch64")


def test_an_unknown_instruction_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown instruction 0x1 at 0"):
        run([Instruction(1, 0, 0, 0)], CallData(0, 0))


def test_call_data_has_the_kernels_layout() -> None:
    data = CallData(-1, 2, 3, (4, -1))
    assert data.packed() == struct.pack("=iI7Q", -1, 2, 3, 4, (1 << 64) - 1, 0, 0, 0, 0)


def test_the_dump() -> None:
    connected = Condition(1, (1, 5), 0xF, none_of=True)
    rule = CallRule(("socket",), errno(95), (connected, Condition(2, (0,), upper=True)))
    text = [line.split(maxsplit=1)[1] for line in dump(compile_rules([rule], "aarch64")).splitlines()]
    assert text[:7] == [
        "load architecture",
        "if == 0xc00000b7 go 3 else 2",
        "go 27",
        "load number",
        "if == 0xffffffff go 5 else 6",
        "go 25",
        "if >= 0xc7 go 7 else 8",
    ]
    assert text[16:] == [
        "load argument 1",
        "and 0xf",
        "if == 0x1 go 24 else 19",
        "if == 0x5 go 24 else 20",
        "load argument 2 upper",
        "if == 0x0 go 23 else 22",
        "go 24",
        "return EOPNOTSUPP",
        "return allow",
        "return allow",
        "return ENOSYS",
        "return kill",
    ]
