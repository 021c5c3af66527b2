"""Runs the bench as whoever we are: `python -m tests.bench.probes.peers NAME`."""

import json
import os
import sys

from bench.peers import main

from pinfold.sandbox.probe import sandbox_trouble


def ratios_of_true() -> None:
    """Bare and pinfold take turns at `true`, and nothing is left where they worked."""
    trouble = sandbox_trouble()
    if trouble:
        print(trouble)
        sys.exit(77)
    home, outcome = os.environ["HOME"], os.path.abspath("outcome.json")
    assert main(["--quick", "--only", "true", "bare", "pinfold", "--json", outcome]) == 0
    with open(outcome) as file:
        data = json.load(file)
    assert data["absent"] == {}
    seconds = data["works"]["true"]["seconds"]
    assert len(seconds["bare"]) == len(seconds["pinfold"]) == 30
    assert data["works"]["true"]["ratios"]["bare"] == 1
    assert not [name for name in os.listdir(home) if name.startswith("pinfold-bench-")]


if __name__ == "__main__":
    {"ratios_of_true": ratios_of_true}[sys.argv[1]]()
