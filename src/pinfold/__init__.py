"""Pinfold: AI coding agents run terminal commands inside a fence that the kernel holds."""

__version__ = "0.1.0"
