"""Which files and flags count, and in which layer each stands.

Reads them in order of trust. No environment variable moves the managed file: whoever sets the
environment of an agent would otherwise be the administrator.
"""

import os
from collections.abc import Mapping, Sequence

from msgspec import Struct

from pinfold.model.errors import PolicyError
from pinfold.model.visible import visible
from pinfold.settings.files import list_directory, read_text
from pinfold.settings.layers import Layer, read_layer
from pinfold.settings.toml import Document, parse

MANAGED = "/etc/pinfold/managed.toml"
MANAGED_DIR = "/etc/pinfold/managed.d"
FROM_ENVIRONMENT = {
    "PINFOLD_MODE": ("mode",),
    "PINFOLD_POLICY": ("sandbox", "policy"),
    "PINFOLD_NETWORK": ("network", "access"),
}


class Sources(Struct, frozen=True):
    """Where settings come from. An empty path is a layer that is not there."""

    managed: str = ""
    managed_dir: str = ""
    user: str = ""
    user_required: bool = False
    """The user file was asked for by name, so it must exist."""
    user_values: Mapping[str, object] | None = None
    """Stands for the user layer instead of a file."""
    projects: tuple[str, ...] = ()
    """The roots whose `.pinfold/` is read."""
    overrides: Mapping[str, object] = {}
    """The command line's values, shaped as the file is; `section.key` is understood too."""
    environment: Mapping[str, str] = {}
    """Only the variables of `FROM_ENVIRONMENT` are looked at."""
    owned: bool = False
    """The managed files must be root's own; always asked of the usual ones in /etc."""

    @classmethod
    def usual(
        cls,
        roots: Sequence[str] = (),
        user: str | Mapping[str, object] | None = None,
        overrides: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> "Sources":
        """The layers of this machine; `user` is a file or values that stand for the user's own file."""
        environ = os.environ if environ is None else environ
        return cls(
            managed=MANAGED,
            managed_dir=MANAGED_DIR,
            user=os.path.abspath(user) if isinstance(user, str) else user_file(environ),
            user_required=isinstance(user, str),
            user_values=None if isinstance(user, str) else user,
            projects=tuple(dict.fromkeys(os.path.abspath(root) for root in roots)),
            overrides=overrides or {},
            environment={name: environ[name] for name in FROM_ENVIRONMENT if name in environ},
            owned=True,
        )


def user_file(environ: Mapping[str, str]) -> str:
    """`$XDG_CONFIG_HOME/pinfold/settings.toml`; the XDG rules say that a relative value is ignored."""
    base = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return os.path.join(base, "pinfold", "settings.toml")


def find_project(directory: str) -> str:
    """The project around a directory, or the directory itself; never the home or the root.

    The outermost directory with settings of its own comes before the nearest repository: else an agent
    could leave a project's rules behind by `git init` in a directory of it.
    """
    home = os.path.realpath(os.path.expanduser("~"))
    above: list[str] = []
    while directory not in ("/", home):
        above.append(directory)
        directory = os.path.dirname(directory)
    settled = [at for at in above if os.path.isdir(os.path.join(at, ".pinfold"))]
    repositories = [at for at in above if os.path.exists(os.path.join(at, ".git"))]
    return (settled[-1:] or repositories[:1] or above[:1] or [directory])[0]


def project_files(root: str) -> tuple[tuple[str, str], ...]:
    """Layer and path of a project's two files."""
    return (
        ("project-local", os.path.join(root, ".pinfold", "settings.local.toml")),
        ("project", os.path.join(root, ".pinfold", "settings.toml")),
    )


def watched(sources: Sources) -> tuple[str, ...]:
    """Every path whose change may change the settings."""
    files = [sources.managed, sources.managed_dir, *managed_files(sources)]
    if sources.user_values is None:
        files.append(sources.user)
    files += [path for root in sources.projects for _, path in project_files(root)]
    return tuple(dict.fromkeys(file for file in files if file))


def managed_files(sources: Sources) -> tuple[str, ...]:
    owned = sources.owned or sources.managed == MANAGED
    extra = list_directory(sources.managed_dir, owned=owned) if sources.managed_dir else ()
    return ((sources.managed,) if sources.managed else ()) + extra


def read_layers(sources: Sources) -> list[Layer]:
    """Every layer that is there, most trusted first."""
    owned = sources.owned or sources.managed == MANAGED
    found = [_file("managed", path, owned=owned) for path in managed_files(sources)]
    found += _command_line(sources)
    found.append(_user(sources))
    for root in sources.projects:
        found += [_file(layer, path, root=root) for layer, path in project_files(root)]
    return [read_layer(document) for document in found if document is not None]


def _file(layer: str, path: str, root: str = "", owned: bool = False) -> Document | None:
    text = read_text(path, root=root, owned=owned)
    return None if text is None else parse(layer, path, text, root)


def _user(sources: Sources) -> Document | None:
    if sources.user_values is not None:
        return Document("user", "", "", _nested(sources.user_values))
    if not sources.user:
        return None
    document = _file("user", sources.user)
    if document is None and sources.user_required:
        raise PolicyError("there is no such settings file", where=visible(sources.user))
    return document


def _command_line(sources: Sources) -> list[Document | None]:
    """Flags first: they hold against the environment."""
    documents: list[Document | None] = []
    if sources.overrides:
        documents.append(Document("command line", "", "", _nested(sources.overrides)))
    for name, path in FROM_ENVIRONMENT.items():
        if sources.environment.get(name):
            values = _nested({".".join(path): sources.environment[name]})
            documents.append(Document("command line", f"${name}", "", values))
    return documents


def _nested(values: Mapping[str, object]) -> dict[str, object]:
    """`{"sandbox.policy": x}` as `{"sandbox": {"policy": x}}`; tuples become lists, as TOML has them."""
    nested: dict[str, object] = {}
    for name, value in values.items():
        section, _, key = name.rpartition(".")
        if section:
            inner = nested.setdefault(section, {})
            if isinstance(inner, dict):
                inner[key] = _plain(value)
        elif isinstance(value, Mapping) and isinstance(nested.get(name), dict):
            nested[name] |= _plain(value)  # type: ignore[operator]  # both were just seen to be tables
        else:
            nested[name] = _plain(value)
    return nested


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(inner) for inner in value]
    return value
