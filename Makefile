# make test   everything, with what it needs installed first
# make check  ruff and mypy
# make bench  speed, as ratios in one run
PYTHON := .venv/bin/python

.PHONY: test check bench clean

test: .venv/tested
	$(PYTHON) -m pytest -n 2 --dist loadfile

check: .venv/tested
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

bench: .venv/tested
	$(PYTHON) bench/decide.py

.venv/tested: pyproject.toml
	./pinfold --version
	$(PYTHON) -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv .venv.lock .mypy_cache .ruff_cache .pytest_cache .hypothesis
