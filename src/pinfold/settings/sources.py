"""Which files and flags count, and to which layer each belongs.

Names them in order of trust. No environment variable moves the managed file: otherwise the person who sets an
agent's environment could act as the administrator.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from pinfold.model.agent_variables import AgentVariables
from pinfold.model.errors import PolicyError
from pinfold.model.escape_text import visible
from pinfold.model.home import home_of
from pinfold.settings.files import is_for_everybody, is_own, list_directory, read_text
from pinfold.settings.parse_layer import SettingsLayer, read_layer
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
    """The user layer's values, instead of a file."""
    projects: tuple[str, ...] = ()
    """The roots whose `.pinfold/` is read."""
    above: tuple[str, ...] = ()
    """Directories around them whose `.pinfold/` is read too, if it is the user's own or root's."""
    overrides: Mapping[str, object] = {}
    """The command line's values, shaped as the file is; `section.key` is understood too."""
    environment: Mapping[str, str] = {}
    """Only the variables of `FROM_ENVIRONMENT` are looked at."""
    from_agent: bool = False
    """A project may have set those, so they only narrow, as a project's file does."""
    held: Mapping[str, object] | None = None
    """What a resumed session had, by the names of the keys (`held`): no value in force is wider."""
    owned: bool = False
    """The managed files must be root's own; always asked of the usual ones in /etc."""

    @classmethod
    def usual(
        cls,
        roots: Sequence[str] = (),
        user: str | Mapping[str, object] | None = None,
        overrides: Mapping[str, object] | None = None,
        environ: Mapping[str, str] | None = None,
        held: Mapping[str, object] | None = None,
    ) -> "Sources":
        """The layers of this machine; `user` is a file or values instead of the user's own file."""
        environ = os.environ if environ is None else environ
        if not isinstance(user, str | Mapping | None):
            raise TypeError(f"settings must be a file or a dictionary, got {type(user).__name__}")
        projects = tuple(dict.fromkeys(os.path.abspath(root) for root in roots))
        home = os.path.realpath(home_of(environ))
        above = dict.fromkeys(outer for root in projects for outer in [*upwards(root, home)][1:])
        return cls(
            managed=MANAGED,
            managed_dir=MANAGED_DIR,
            user=os.path.abspath(user) if isinstance(user, str) else user_file(environ),
            user_required=isinstance(user, str),
            user_values=None if isinstance(user, str) else user,
            projects=projects,
            above=tuple(outer for outer in above if outer not in projects),
            overrides=overrides or {},
            environment={name: environ[name] for name in FROM_ENVIRONMENT if name in environ},
            from_agent=isinstance(environ, AgentVariables),
            held=held,
            owned=True,
        )


def user_file(environ: Mapping[str, str]) -> str:
    """`$XDG_CONFIG_HOME/pinfold/settings.toml`; the XDG rules say that a relative value is ignored."""
    base = environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(home_of(environ), ".config")
    return os.path.join(base, "pinfold", "settings.toml")


def file_of(user: str | Mapping[str, object] | None, environ: Mapping[str, str]) -> str:
    """The user's own settings file; empty if the user's settings are no file."""
    if user is None:
        return user_file(environ)
    return os.path.abspath(user) if isinstance(user, str) else ""


def upwards(directory: str, home: str) -> Iterator[str]:
    """The directory and those around it, up to the home or the root, which are no projects."""
    while directory not in ("/", home):
        yield directory
        directory = os.path.dirname(directory)


def find_project(directory: str, environ: Mapping[str, str] = os.environ) -> str:
    """The nearest repository around a directory, or the directory itself; never the home or the root.

    A repository of another user is none, as for git: anybody can make a /tmp/.git. Nor is one in a directory
    that all users work in, even one's own: files of others would be part of the workspace. Settings
    further out do not make the workspace larger, and an agent does not leave them behind by `git init` in a
    directory of the project: they are read all the same (`Sources.above`).
    """
    home = os.path.realpath(home_of(environ))
    around = (at for at in upwards(directory, home) if is_own(os.path.join(at, ".git")))
    return next((at for at in around if not is_for_everybody(at)), directory)


def project_files(root: str) -> tuple[tuple[str, str], ...]:
    """Layer and path of a project's two files."""
    return (
        ("project-local", os.path.join(root, ".pinfold", "settings.local.toml")),
        ("project", os.path.join(root, ".pinfold", "settings.toml")),
    )


def watched(sources: Sources) -> tuple[str, ...]:
    """Every path whose change may change the settings, but for the files of the managed directory."""
    files = [sources.managed, sources.managed_dir]
    if sources.user_values is None:
        files.append(sources.user)
    roots = (*sources.projects, *sources.above)
    files += [path for root in roots for _, path in project_files(root)]
    return tuple(dict.fromkeys(file for file in files if file))


def managed_files(sources: Sources) -> tuple[str, ...]:
    owned = sources.owned or sources.managed == MANAGED
    extra = list_directory(sources.managed_dir, owned=owned) if sources.managed_dir else ()
    return ((sources.managed,) if sources.managed else ()) + extra


class LayerSource(Struct, frozen=True):
    """One place that may hold a layer."""

    name: str
    read: Callable[[], SettingsLayer | None]
    """Raises `PolicyError` where it is broken; None where there is nothing."""


def read_layers(sources: Sources) -> list[SettingsLayer]:
    """Every layer that is there, most trusted first."""
    found = [source.read() for source in list_sources(sources)]
    return [layer for layer in found if layer is not None]


def list_sources(sources: Sources) -> list[LayerSource]:
    """Most trusted first; a `PolicyError` where the managed directory is not the administrator's."""
    owned = sources.owned or sources.managed == MANAGED
    found = [
        LayerSource(path, partial(_layer, "managed", path, owned=owned)) for path in managed_files(sources)
    ]
    documents = _command_line(sources)
    found += [LayerSource(f"flags {document.file}", partial(read_layer, document)) for document in documents]
    found.append(LayerSource("user", partial(_user, sources)))
    for root in sources.projects:
        found += [LayerSource(path, partial(_layer, name, path, root)) for name, path in project_files(root)]
    for root in sources.above:
        found += [
            LayerSource(path, partial(_outer_layer, name, path, root)) for name, path in project_files(root)
        ]
    return found


def _layer(name: str, path: str, root: str = "", owned: bool = False) -> SettingsLayer | None:
    text = read_text(path, root=root, owned=owned)
    return None if text is None else read_layer(parse(name, path, text, root))


def _outer_layer(name: str, path: str, root: str) -> SettingsLayer | None:
    """A file that others may have put there says nothing, and breaks nothing."""
    if not os.path.lexists(path):
        return None
    if is_own(path):
        return _layer(name, path, root)
    notice = f"{visible(path)}: is ignored: it belongs to another user"
    return SettingsLayer(Document(name, "", "", {}, root), {}, {}, [], [notice])


def _user(sources: Sources) -> SettingsLayer | None:
    if sources.user_values is not None:
        values = _nested(sources.user_values)
        return read_layer(Document("user", "", "", values, told="the given `settings`"))
    if not sources.user:
        return None
    layer = _layer("user", sources.user)
    if layer is None and sources.user_required:
        raise PolicyError("this settings file does not exist", where=visible(sources.user))
    return layer


def _command_line(sources: Sources) -> list[Document]:
    """Flags first: they hold against the environment."""
    layer = "project-local" if sources.from_agent else "command line"
    documents: list[Document] = []
    if sources.overrides:
        documents.append(Document("command line", "", "", _nested(sources.overrides)))
    for name, path in FROM_ENVIRONMENT.items():
        if sources.environment.get(name):
            values = _nested({".".join(path): sources.environment[name]})
            documents.append(Document(layer, f"${name}", "", values))
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
