"""Why something could not be made, in one line, as it is passed on from whoever failed to the host."""


class Failed(Exception):  # noqa: N818
    """What was asked for could not be made; the text says why."""


def words_of(error: BaseException) -> str:
    """The kernel's words where it spoke; the name of the error where it is a fault of ours."""
    if isinstance(error, Failed):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename!r})" if error.filename else ""
        return f"{error.strerror}{where}"
    return f"{type(error).__name__}: {error}"
