"""Text for programs that may draw it as Markdown (ACP's titles and content, messages of MCP's forms).

Facts (CommonMark 4.5, 6.1, 6.6):
- Comments, tags, links and marks of emphasis hide text.
- In a fenced block every character is seen, until a line of as many backticks as began it.
- In a code span every character is seen, until as many backticks. It takes one blank off both ends, unless
  it is all blanks. A line is no fence where backticks follow those that it begins with.
"""

import re
from collections.abc import Iterable

_FENCES = re.compile(r"`{3,}")
_TICKS = re.compile(r"`+")


def verbatim(lines: Iterable[str]) -> str:
    """Lines as a code block, which draws every character as it is."""
    text = "\n".join(lines)
    fence = "`" * max((3, *(len(run) + 1 for run in _FENCES.findall(text))))
    return f"{fence}\n{text}\n{fence}"


def verbatim_line(text: str) -> str:
    """A text of one line as a code span, which draws every character as it is."""
    ticks = "`" * max((1, *(len(run) + 1 for run in _TICKS.findall(text))))
    blank = " " if text.strip() and {text[0], text[-1]} & {"`", " "} else ""
    return f"{ticks}{blank}{text}{blank}{ticks}"
