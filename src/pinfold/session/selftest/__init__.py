"""The self-test: attacks the fence on the user's own machine and says what held.

`scratch` makes the place that is attacked and tells from outside whether something of it was touched; `run`
lets the attacks (`sandbox.attacks`) loose on it, one by one.
"""
