"""One agent's work, and the one place that knows the order of the stages.

It may import every package of the middle row; none of them imports it.
"""

from pinfold.session.session import Session

__all__ = ["Session"]
