"""Values every stage shares.

Everything here is frozen, and nothing here imports another package of ours. A module of this
package may describe a thing; what is done with it belongs to the stage that does it.
"""
