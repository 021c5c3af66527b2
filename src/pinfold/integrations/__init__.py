"""Faces for agents that people already use. Each is thin: it speaks one agent's language to a session."""
