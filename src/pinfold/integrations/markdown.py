"""Text for programs that may draw it as Markdown (ACP's content, messages of MCP's forms).

Fact (CommonMark 4.5, 6.6): comments, tags, links and marks of emphasis hide text; in a fenced block every
character is seen, until a line of as many backticks as began it.
"""

import re
from collections.abc import Iterable

_TICKS = re.compile(r"`{3,}")


def verbatim(lines: Iterable[str]) -> str:
    """Lines that are drawn as they are, whatever is in them."""
    text = "\n".join(lines)
    fence = "`" * max((3, *(len(run) + 1 for run in _TICKS.findall(text))))
    return f"{fence}\n{text}\n{fence}"
