"""The granter: makes the file changes that a person granted, outside of every pen."""
