"""Shell text to the commands it may start: `parse(text) -> Script`.

Imports only `model`. The order of the work: `syntax` (text to tree, by `fast_parser` or by shfmt) -> `walk`
and `words` (tree to raw commands) -> `builtins` (the shell's own commands) and `unwrap` (programs and
wrappers) -> `parse`.
"""

from pinfold.shell.parse import parse
from pinfold.shell.syntax import Parser

__all__ = ["Parser", "parse"]
