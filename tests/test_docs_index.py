"""docs/index.md leads to every page."""

import re
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_index_links_every_page_once() -> None:
    linked = re.findall(r"\]\(([\w.-]+\.md)\)", (DOCS / "index.md").read_text())
    assert sorted(linked) == sorted({page.name for page in DOCS.glob("*.md")} - {"index.md"})


def test_the_index_says_what_each_page_is_about() -> None:
    for line in (DOCS / "index.md").read_text().splitlines():
        assert not line.startswith("- ") or re.match(r"- \[[^]]+\]\([^)]+\): .+\.$", line), line
