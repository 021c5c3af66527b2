"""The least sandbox of Landlock and seccomp: no file is made outside of the workspace, every call is allowed.

Its cost is what the kernel takes for the two layers as such, with any rules: no sandbox that has both is
faster. A thread that has them gives them to its children. Run as a program
(`least.py DIRECTORY... -- WORDS`) it sets them on itself and becomes the command.
"""

import os
import sys
import tempfile

from pinfold.kernel import landlock, seccomp
from pinfold.kernel.process import set_no_new_privs
from pinfold.sandbox.seccomp.bpf import RETURN, Instruction

EVERYTHING = seccomp.pack([Instruction(RETURN, 0, 0, seccomp.RET_ALLOW)])
"""One instruction: allow every call."""


def confine(*writable: str) -> None:
    """Sets the layers on the calling thread, for good."""
    ruleset = landlock.create_ruleset(landlock.MAKE_REG)
    for path in (*writable, tempfile.gettempdir()):
        landlock.allow_path(ruleset, path, landlock.MAKE_REG)
    set_no_new_privs()
    landlock.restrict_self(ruleset)
    os.close(ruleset)
    seccomp.install(EVERYTHING)


if __name__ == "__main__":
    end = sys.argv.index("--")
    confine(*sys.argv[1:end])
    os.execvp(sys.argv[end + 1], sys.argv[end + 1 :])
