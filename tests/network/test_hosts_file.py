"""/etc/hosts."""

from pathlib import Path

from pinfold.network.dns_lookup import load_hosts, parse_hosts


def test_parse() -> None:
    text = """
    # 10.0.0.1 commented
    127.0.0.1 localhost Box.Example # here
    ::1       localhost
    10.0.0.2  box.example.
    nonsense  line
    10.0.0.3
    """
    assert parse_hosts(text) == {
        "localhost": ("127.0.0.1", "::1"),
        "box.example": ("127.0.0.1", "10.0.0.2"),
    }


def test_no_file_knows_no_names(tmp_path: Path) -> None:
    assert load_hosts(str(tmp_path / "hosts")) == {}
