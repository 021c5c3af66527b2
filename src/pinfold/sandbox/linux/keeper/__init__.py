"""The keeper: the process that makes sessions and pens on request."""
