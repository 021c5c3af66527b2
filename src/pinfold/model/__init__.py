"""Values every stage shares.

Everything here is frozen, and nothing here imports another package of ours. A module of this
package describes a thing; the stage that uses the thing has the code that acts on it.
"""
