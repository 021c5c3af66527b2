"""An "ask" becomes an answer: approvers are asked in turn, and the end of the chain says no."""

from pinfold.approval.chain import Approver, is_there, settle
from pinfold.approval.desk import Desk

__all__ = ["Approver", "Desk", "is_there", "settle"]
