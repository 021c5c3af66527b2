"""The gate as its session sees it: starts it, answers what it asks, files what it tells.

All of this runs in the session's process. The gate itself, in the package around this one, knows no settings.
"""
