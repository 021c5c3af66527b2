"""Files that are not what they should be; nothing waits, nothing is silently empty."""

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.settings.loaded import shape, write
from tests.settings.test_schema import EXAMPLE

from pinfold.model.errors import PolicyError
from pinfold.settings import Sources, load
from pinfold.settings.build import build
from pinfold.settings.defaults import default_layer
from pinfold.settings.files import LARGEST, read_text, write_text
from pinfold.settings.parse_layer import read_layer
from pinfold.settings.toml import parse

BYTES = [
    (b"\xef\xbb\xbfmode = 'use_allowlist'", "begins with a byte order mark"),
    (b"\xff\xfem\0", "begins with a byte order mark"),
    (b"a = 1\n# \xff", "is not UTF-8"),
    (b"#" * (LARGEST + 1), "is larger than 1 MB"),
    (b"a = " + b"[" * 100_000, "nested too deeply"),
    (b"a = " + b"{a=" * 50_000, "nested too deeply"),
    (b"a = " + b"9" * 5_000, "not valid TOML"),
    (b"mode = 'x\0'", "invalid character"),
]


@pytest.mark.parametrize(("data", "message"), BYTES)
def test_contents(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_bytes(data)
    with pytest.raises(PolicyError, match=message):
        load(Sources(user=str(path)), shape)


DEEP = "a." * 50 + "a"
QUOTED = r'"\"".' * 50 + "a"


@pytest.mark.parametrize(
    "text",
    [
        f"{DEEP} = 1",
        f"[{DEEP}]",
        f"[[{DEEP}]]",
        f"x = {{{DEEP} = 1}}",
        # parts in quotes, with quotes in them
        f"{QUOTED} = 1",
        f"x = {{a = 1, {QUOTED} = 1}}",
        # behind what is a text or a comment
        f'x = 1 # "\n{DEEP} = 1',
        f"x = '''\n#'''\n{DEEP} = 1",
        # a text may end in quotes of its own
        f'x = {{a = """t"""", {DEEP} = 1, b = "t"}}',
        f"x = {{a = '''t''''', {DEEP} = 1, b = 't'}}",
    ],
)
def test_keys_of_too_many_parts(text: str) -> None:
    with pytest.raises(PolicyError, match="keys are nested too deeply"):
        parse("user", "f", text)


@pytest.mark.parametrize(
    "text",
    [f'x = "{DEEP}"', f"x = '{DEEP}'", f'x = """\n{DEEP}"""', f"x = '''\n{DEEP}'''", f"# {DEEP}"],
)
def test_dots_in_texts_and_comments_are_no_keys(text: str) -> None:
    parse("user", "f", text)


@pytest.mark.parametrize("line", ['"""', r'\"""', "'''", '"', "'", "a.", "a "])
@pytest.mark.parametrize("end", ["", "\\", "'", '"', r'"\\'])
@pytest.mark.parametrize("between", ["", "\n"])
def test_texts_without_an_end_take_no_time(line: str, end: str, between: str) -> None:
    """An end that was looked for from every quote would take an hour."""
    with pytest.raises(PolicyError):
        parse("user", "f", "\\" + f"{line}{between}" * 100_000 + end)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_garbage_is_settings_or_a_policy_error(data: st.DataObject) -> None:
    """Never any other exception."""
    pieces = st.sampled_from(
        EXAMPLE.split("\n") + list("[]{}=\"'#,.\0\r\n\ufeff\u202e") + ["[[rule]]", "[[", "1e999"]
    )
    text = "\n".join(data.draw(st.lists(pieces, max_size=8)))
    cut = data.draw(st.integers(0, len(text)))
    try:
        build([read_layer(parse("managed", "f", text[cut:])), default_layer()], shape)
    except PolicyError as error:
        assert error.message.isprintable()


def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkdir(tmp_path / "directory")
    os.mkfifo(tmp_path / "fifo")
    os.symlink(tmp_path / "nowhere", tmp_path / "dangling")
    os.symlink(tmp_path / "loop", tmp_path / "loop")
    write(tmp_path, "file", "")
    table = [
        ("directory", "is a directory"),
        ("fifo", "is not a regular file"),
        ("dangling", "is a symbolic link to a file that does not exist"),
        ("loop", "cannot be read"),
        ("file/below", "cannot be read"),
    ]
    for name, message in table:
        with pytest.raises(PolicyError, match=message) as raised:
            load(Sources(user=f"{tmp_path}/{name}"), shape)
        assert raised.value.help
    with pytest.raises(PolicyError, match="is not a regular file"):
        read_text("/dev/zero")
    assert read_text(f"{tmp_path}/missing") is None


@pytest.mark.skipif(not os.geteuid(), reason="root may enter every directory")
def test_a_directory_that_cannot_be_entered(tmp_path: Path) -> None:
    os.mkdir(tmp_path / "closed", 0o600)
    for name in ("closed/settings.toml", "closed/.pinfold/settings.toml"):
        with pytest.raises(PolicyError, match="cannot be entered, so pinfold cannot tell whether") as raised:
            read_text(f"{tmp_path}/{name}")
        assert raised.value.where == f"{tmp_path}/closed"
        assert raised.value.help == f"chmod u+rx {tmp_path}/closed"
    unreadable = tmp_path / "unreadable"
    unreadable.touch(0o200)
    with pytest.raises(PolicyError, match="cannot be read: permission denied"):
        read_text(str(unreadable))


def test_missing_files_are_fine_unless_named(tmp_path: Path) -> None:
    load(
        Sources(
            managed=f"{tmp_path}/m",
            managed_dir=f"{tmp_path}/d",
            user=f"{tmp_path}/u",
            projects=(str(tmp_path),),
        ),
        shape,
    )
    with pytest.raises(PolicyError, match="this settings file does not exist"):
        load(Sources(user=f"{tmp_path}/u", user_required=True), shape)


def test_a_project_file_cannot_lead_out(tmp_path: Path) -> None:
    """Else the excerpt of an error would show a line of the file it leads to."""
    secret = write(tmp_path, "secret", "password")
    os.makedirs(tmp_path / "root/.pinfold")
    os.symlink(secret, tmp_path / "root/.pinfold/settings.toml")
    with pytest.raises(PolicyError, match="outside the project") as caught:
        load(Sources(projects=(f"{tmp_path}/root",)), shape)
    assert "password" not in caught.value.excerpt
    os.unlink(tmp_path / "root/.pinfold/settings.toml")
    write(tmp_path, "root/real.toml", "[commands]\ndeny = ['rm']")
    os.symlink("../real.toml", tmp_path / "root/.pinfold/settings.toml")
    assert load(Sources(projects=(f"{tmp_path}/root",)), shape).commands.deny


@pytest.mark.skipif(os.geteuid() != 0, reason="changes owners")
def test_managed_files_must_be_roots(tmp_path: Path) -> None:
    path = write(tmp_path, "managed.toml", "")
    sources = Sources(managed=path, managed_dir=f"{tmp_path}/managed.d", owned=True)
    os.chmod(tmp_path, 0o755)
    load(sources, shape)
    os.chmod(path, 0o664)
    with pytest.raises(PolicyError, match="is writable by users other than root"):
        load(sources, shape)
    os.chmod(path, 0o644)
    os.chown(path, 1000, 0)
    with pytest.raises(PolicyError, match="does not belong to root"):
        load(sources, shape)
    os.chown(path, 0, 0)
    os.chmod(tmp_path, 0o777)
    with pytest.raises(PolicyError, match="is writable by users other"):
        load(sources, shape)
    os.chmod(tmp_path, 0o755)
    os.mkdir(tmp_path / "managed.d")
    os.chmod(tmp_path / "managed.d", 0o777)
    with pytest.raises(PolicyError, match="is writable by users other"):
        load(sources, shape)


def test_writing_keeps_mode_and_link(tmp_path: Path) -> None:
    real = write(tmp_path, "dotfiles/pinfold.toml", "old")
    os.chmod(real, 0o640)
    os.symlink(real, tmp_path / "settings.toml")
    write_text(f"{tmp_path}/settings.toml", "new")
    assert os.path.islink(tmp_path / "settings.toml")
    assert Path(real).read_text() == "new"
    assert os.stat(real).st_mode & 0o777 == 0o640
    assert os.listdir(tmp_path / "dotfiles") == ["pinfold.toml"]


def test_what_one_that_was_killed_has_left_is_not_in_the_way(tmp_path: Path) -> None:
    """In a container every process may have the same number each time."""
    left = write(tmp_path, f"settings.toml.{os.getpid()}.part", "half")
    write_text(f"{tmp_path}/settings.toml", "new")
    assert (tmp_path / "settings.toml").read_text() == "new" and not os.path.exists(left)


def test_a_file_that_is_made_just_then_is_no_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.toml"

    def late(*_: object) -> int:
        path.write_text("")
        raise FileNotFoundError

    with monkeypatch.context() as patch:
        patch.setattr("pinfold.settings.files.os.open", late)
        assert read_text(str(path)) is None
    assert read_text(str(path)) == ""
