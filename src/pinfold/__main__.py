"""`python -m pinfold`."""

from pinfold.cli import entry

entry()
