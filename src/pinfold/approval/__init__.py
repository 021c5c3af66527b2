"""An "ask" becomes an answer: approvers are asked in turn, and the end of the chain says no."""

from pinfold.approval.chain import Approver, is_there, settle
from pinfold.approval.desk import Desk
from pinfold.approval.store import Store

__all__ = ["Approver", "Desk", "Store", "is_there", "settle"]
