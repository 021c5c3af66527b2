"""Which program something is that goes by another name: a package, a module, a file of code.

Rules speak of programs: whoever starts npm by `npx npm@9`, `node npm-cli.js` or pip by `python -m pip` starts
what `npm` and `pip` name.
"""

import re

from pinfold.model.script import Word
from pinfold.shell.options import literal_word
from pinfold.shell.programs import chart

INIT_SCRIPT = r"/+(?:etc/+)?(?:rc\.d/+)?init\.d/+([^/]+)|/+(?:usr/+local/+)?etc/+rc\.d/+([^/]+)"
PACKAGE = r"(?s)(?:[\w.+=,-]+:)?(.+?)(?:@.*|\[.*|[=~<>!]=.*)?"
CODE = r"(?:.*/)?(?:([^/]+)(?:-cli|-[0-9.]+)\.[cm]?js|([^/]+)/__main__\.py)"


def package_name(name: str) -> str:
    """The program that a package is called by: of `npm@9` and `npm:npm` it is npm, of `test:pip==24` pip."""
    match = re.fullmatch(PACKAGE, name)
    return match[1] if match else name


def module_as_program(module: Word) -> Word:
    """Facts about Python: `pip` is `pip.__main__`, and modules have `_` where their programs have `-`."""
    if not module.literal:
        return module
    name, _, _ = module.literal.partition("._")
    dashed = name.replace("_", "-")
    return literal_word(dashed if chart(dashed) is not None else name, module.span)


def file_as_program(file: Word) -> Word:
    """The program that a file of code is, where its name says so: `npm/bin/npm-cli.js`, `pip/__main__.py`."""
    match = re.fullmatch(CODE, file.literal or "")
    name = next(filter(None, match.groups()), "") if match else ""
    return literal_word(name, file.span) if name and chart(name) is not None else file


def service_of(program: str) -> str:
    """The service that a script of the system starts and stops: `/etc/init.d/nginx stop`."""
    match = re.fullmatch(INIT_SCRIPT, program)
    return next(filter(None, match.groups()), "") if match else ""
