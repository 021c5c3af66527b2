"""Addresses that stand for names."""

from hypothesis import given
from hypothesis import strategies as st

from pinfold.network.fake_ips import FakeAddresses, is_fake_address


def test_a_name_keeps_its_address() -> None:
    table = FakeAddresses()
    first = table.address_of("a.example", 0)
    assert first is not None and is_fake_address(first)
    assert table.address_of("b.example", 1) != first
    assert table.address_of("a.example", 2) == first
    assert table.use(first, 3) == table.name_of(first) == "a.example"


def test_addresses_that_were_not_given_stand_for_nothing() -> None:
    assert FakeAddresses().use("198.18.1.0", 0) is None
    assert not is_fake_address("198.20.0.1")
    assert not is_fake_address("::1")


def test_a_full_table_takes_what_was_long_unused_and_nothing_else() -> None:
    table = FakeAddresses(most=2, idle=100)
    first, second = table.address_of("a", 0), table.address_of("b", 0)
    assert first is not None and second is not None
    assert table.use(first, 0) and table.use(second, 0)
    assert table.address_of("c", 99) is None
    table.use(first, 99)
    assert table.address_of("c", 100) == second
    assert table.name_of(second) == "c"
    assert table.address_of("b", 101) is None


def test_names_that_nobody_connected_to_do_not_fill_the_table_for_long() -> None:
    table = FakeAddresses(most=2, idle=100, unused=10)
    first, second = table.address_of("a", 0), table.address_of("b", 0)
    assert first is not None and second is not None
    table.use(first, 0)
    assert table.name_of(second) == "b"  # who looks is not who connects
    assert table.address_of("c", 9) is None
    assert table.address_of("c", 10) == second
    assert table.name_of(first) == "a"
    assert table.address_of("a", 60) == first
    assert table.address_of("b", 100) == second
    assert table.address_of("c", 109) is None


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50)), max_size=60))
def test_no_two_names_share_an_address(uses: list[tuple[int, int]]) -> None:
    table, now, given_to = FakeAddresses(most=4, idle=60, unused=20), 0, {}
    for name, later in uses:
        now += later
        address = table.address_of(f"n{name}", now)
        if address is not None:
            given_to[address] = f"n{name}"
            assert table.name_of(address) == f"n{name}"
            assert now % 2 or table.use(address, now) == f"n{name}"
    assert len(table) <= 4
    for address, owner in given_to.items():
        assert table.name_of(address) == owner
