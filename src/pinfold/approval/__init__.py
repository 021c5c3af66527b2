"""An "ask" becomes an answer: approvers are asked in turn, and the end of the chain says no.

`broker` knows earlier answers. It is loaded when a question comes up.
"""

from pinfold.approval.chain import Approver, is_there, settle

__all__ = ["Approver", "is_there", "settle"]
