"""Where the user's ssh keys are, beyond `~/.ssh`: its configuration may name files anywhere.

Facts (ssh_config(5)): a keyword is compared without regard to case and followed by blanks or one `=`;
arguments may be quoted; `Include` takes patterns, relative ones below `~/.ssh`; `~` and `%d` are the home.
Other `%` tokens depend on the connection, and name files that cannot be known here.
"""

import os
import re
from collections.abc import Iterator
from glob import iglob

from pinfold.settings.files import read_text

DEPTH = 8
MOST = 64
LINE = re.compile(r"\s*(IdentityFile|CertificateFile|Include)(?:\s*=\s*|\s+)(.+?)\s*$", re.IGNORECASE)


def identity_files(home: str) -> tuple[str, ...]:
    """The files that ssh reads keys from, as its configuration names them."""
    return tuple(dict.fromkeys(_named(os.path.join(home, ".ssh", "config"), home, DEPTH)))[:MOST]


def _named(config: str, home: str, depth: int) -> Iterator[str]:
    text = read_text(config) if depth else None
    for line in (text or "").splitlines():
        if not (match := LINE.match(line)):
            continue
        values = [_expanded(value, home) for value in re.findall(r'"([^"]*)"|(\S+)', match[2])]
        if match[1].lower() != "include":
            yield from (value for value in values[:1] if os.path.isabs(value) and "%" not in value)
            continue
        for value in values:
            for path in sorted(iglob(os.path.join(home, ".ssh", value)))[:MOST]:
                yield from _named(path, home, depth - 1)


def _expanded(value: tuple[str, str], home: str) -> str:
    text = (value[0] or value[1]).replace("%d", home)
    return home + text[1:] if text.startswith("~/") else text
