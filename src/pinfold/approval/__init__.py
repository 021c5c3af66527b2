"""An "ask" becomes an answer: approvers are asked in turn, and the end of the chain says no."""

from pinfold.approval.chain import Approver, settle

__all__ = ["Approver", "settle"]
