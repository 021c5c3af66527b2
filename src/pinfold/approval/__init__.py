"""An "ask" becomes an answer: approvers are asked in turn, and the end of the chain says no.

What was answered before is known to the `desk`, which is loaded when somebody is to be asked.
"""

from pinfold.approval.chain import Approver, is_there, settle

__all__ = ["Approver", "is_there", "settle"]
