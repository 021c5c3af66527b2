# make test   everything, with what it needs installed first
# make quick  what builds no sandbox and is not slow: a minute on two cores
# make check  ruff and mypy
# make wheel  dist/*.whl, tried in a fresh environment
# make bench  speed, as ratios in one run
# make agents  real agents for tests/agents/, into $PINFOLD_AGENTS or ~/.cache/pinfold-agents
# make peers  other sandboxes for `make bench` to compare with, into $PINFOLD_PEERS or ~/.cache/pinfold-peers
PYTHON := .venv/bin/python
AGENTS := $(or $(PINFOLD_AGENTS),$(HOME)/.cache/pinfold-agents)
PEERS := $(or $(PINFOLD_PEERS),$(HOME)/.cache/pinfold-peers)

# pytest keeps the modules that it has rewritten, unless it may not write bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: test quick check wheel bench peers agents clean

# Probes run in processes of their own that write no bytecode: without compiling first, each would compile its modules again.
test: .venv/tested
	$(PYTHON) -m compileall -q src tests
	$(PYTHON) -m pytest -n 5 --dist worksteal --timeout 300

quick: .venv/tested
	$(PYTHON) -m compileall -q src tests
	$(PYTHON) -m pytest -n 2 --dist worksteal -m 'not sandbox and not slow' --hypothesis-profile quick

check: .venv/tested
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

wheel: .venv/tested
	rm -rf dist
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .
	.ci/check-wheel dist/*.whl

bench: .venv/tested
	$(PYTHON) bench/decide.py
	$(PYTHON) -m bench.hook
	$(PYTHON) -m bench.peers
	$(PYTHON) -m bench.gate
	$(PYTHON) -m bench.warden

# srt calls bwrap, socat and rg. Without root, what is missing of the system's packages has to be there already.
peers:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then for pair in \
		bwrap:bubblewrap socat:socat rg:ripgrep node:nodejs npm:npm; do \
		command -v "$${pair%%:*}" >/dev/null || apt-get install --yes --quiet "$${pair##*:}" || exit 1; done; fi
	mkdir -p "$(PEERS)"
	npm install --no-audit --no-fund --prefix "$(PEERS)" @anthropic-ai/sandbox-runtime @openai/codex
	python3 -m venv "$(PEERS)/venv"
	"$(PEERS)/venv/bin/python" -m pip install --quiet --upgrade sandlock

# It wants node and npm. Without `@latest`, npm takes an old version that fits an old node.
agents:
	.ci/agents "$(AGENTS)"

.venv/tested: pyproject.toml
	./pinfold --version
	$(PYTHON) -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf dist .venv .venv.lock .mypy_cache .ruff_cache .pytest_cache .hypothesis
