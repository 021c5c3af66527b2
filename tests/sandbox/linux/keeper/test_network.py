"""Which nameservers datagrams of IPv6 reach."""

from pathlib import Path

from pinfold.sandbox.linux.keeper.network import nameservers

TEXT = (
    "# nameserver ::1\nnameserver 2001:db8::53\nnameserver 127.0.0.53\nnameserver fe80::1%eth0\nnameserver\n"
)


def test_nameservers_are_found_where_the_machine_has_them(tmp_path: Path) -> None:
    assert nameservers(str(tmp_path)) == []
    for name in ("etc", "run"):
        (tmp_path / name).mkdir()
    (tmp_path / "run" / "resolv.conf").write_text(TEXT)
    (tmp_path / "etc" / "resolv.conf").symlink_to("/run/resolv.conf")
    assert nameservers(str(tmp_path)) == ["2001:db8::53"]
