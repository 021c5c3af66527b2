"""Where a text means one thing to bash and another to the shell that will run it.

The whole line is bash's; texts given to `sh -c` and its kin may be run by dash, busybox or ksh. The parser
reads them as bash would. Only a text that uses nothing of bash's own is then read rightly.

Facts about dash: `$'a\\'b'` ends at the second quote, `{a,b}` is one word, `&>` is a background job and a
truncated file, `[[`, `((`, `<(` and `<<<` do not exist.
"""

_SHELLS = frozenset(("bash", "rbash"))
_OTHER_SHELLS = frozenset(("sh", "dash", "ash", "ksh", "mksh", "ksh93", "yash", "busybox"))
_BASH_ONLY = ("$'", '$"', "&>", ">&", "<(", ">(", "[[", "<<<", ";&", ";;&", "|&", "$[", "@(", "+(", "!(", "?(",
              "*(", "coproc", "select", "function")  # fmt: skip


def runs_in_another_shell(via: tuple[str, ...]) -> bool:
    """Whether the innermost shell on the way is not bash."""
    for name in reversed(via):
        if name in _SHELLS:
            return False
        if name in _OTHER_SHELLS:
            return True
    return False


def has_bash_only_syntax(text: str) -> bool:
    """Looks at the bare text, so quoted text may count too: that only adds caution."""
    for sign in _BASH_ONLY:
        if sign in (text if sign != ">&" else _without_descriptors(text)):
            return True
    return "((" in text.replace("$((", "") or _may_expand_braces(text)


def _without_descriptors(text: str) -> str:
    for descriptor in ("1", "2", "-"):
        text = text.replace(f">&{descriptor}", "")
    return text


def _may_expand_braces(text: str) -> bool:
    opens = (at for at, character in enumerate(text) if character == "{" and text[at - 1 : at] != "$")
    return any(
        "," in text[at:] or ".." in text[at:]
        for at in opens
        if text[at + 1 : at + 2] not in ("", " ", "\n", "}")
    )
