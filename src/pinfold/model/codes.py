"""Codes that cross from process to process. The words beside them may change; these do not.

Wardens import this module, so it may import nothing but `enum`.
"""

from enum import StrEnum


class ViolationCode(StrEnum):
    """Why something was denied to a command."""

    OUTSIDE = "outside"
    """The path lies outside of what may be written."""
    PROTECTED = "protected"
    """The name is on a list, or a program obeys the file."""
    PROTECTED_BY_SETTINGS = "protected_by_settings"
    OBEYED = "obeyed"
    """Pinfold itself obeys or runs it: no answer and no setting opens it."""
    NEVER = "never"
    """No person may grant it."""
    GIT_WRITES = "git_writes"
    """The policy denies git's writes as a whole."""
    HIDDEN = "hidden"

    NO_NETWORK = "no_network"
    UNHEARD = "unheard"
    """No process listens on the session's own loopback."""
    HEARD_OUTSIDE = "heard_outside"
    """No process listens on the session's own loopback, but one listens on the machine's."""
    OTHER_SANDBOX = "other_sandbox"
    """The socket belongs to a command that runs under other rules."""
    FOREIGN_SOCKET = "foreign_socket"
    """The socket was not made in the session."""
    UNSHOWN = "unshown"
    """The machine has a socket at this path, and the pen does not show it."""
    AGENT = "agent"
    """Commands may not ask this of a granted ssh agent."""

    DENIED = "denied"
    """A rule, a setting or a person denied the host."""
    MALFORMED = "malformed"
    MISMATCHED = "mismatched"
    BUSY = "busy"
    UNKNOWN_NAME = "unknown-name"
    UNREACHABLE = "unreachable"
    REFUSED_THERE = "refused-there"
    REPEATED = "repeated-credentials"
    """A proxy sends its credentials back."""
    LATE = "late"

    TOO_MANY_FILTERS = "too_many_filters"
    OVERUSE = "overuse"
    """Pinfold killed the command because it used most of what all programs of the user share."""
    UNLISTED = "unlisted"
    """There were more violations than are listed."""
    WARDEN_ENDED = "warden_ended"


class AskedAt(StrEnum):
    """Where a question was asked."""

    NOWHERE = ""
    TERMINAL = "terminal"
    ELSEWHERE = "elsewhere"
    """A page, an agent's dialog, a client, a function of the program that holds the session."""
