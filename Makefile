# Two commands do everything on a fresh machine: `make evals` and `make test`.
# They need python3 (3.11 or newer) with venv, and git.

PYTHON ?= python3
# What to test in place of the checkout: make test WHEEL=dist/regauge-0.1.0-py3-none-any.whl
WHEEL ?=
# How many processes run the tests.
JOBS ?= auto
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
UV_COMPILE := $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-header \
	--python-version 3.11 --extra all --group dev pyproject.toml

CHECKS := check-code check-mypy check-pyright check-fixtures check-docs

.PHONY: evals test browser check $(CHECKS) format docs golden lock clean help

# Bytecode is kept for the tests: hundreds of their processes load the package.
KEEP := env -u PYTHONDONTWRITEBYTECODE

# The projects of tests are written to memory where 4 GiB of it are free for files: no test waits for a disk.
TEMP := $(if $(shell df --output=avail /dev/shm 2>/dev/null | awk '$$1 > 4194304'),PYTEST_DEBUG_TEMPROOT=/dev/shm)

evals: $(STAMP) ## Set up and run the evals in replay: no key, no network.
	$(KEEP) $(BIN)/python -m pytest evals --record=none
	cd examples/real-answers && ../../$(BIN)/python -m pytest evals --record=none
	cd examples/support-service && ../../$(BIN)/python -m pytest evals --record=none
	cd examples/tau-airline && ../../$(BIN)/python -m pytest evals --record=none

test: $(STAMP) ## Set up and run the tests.
	$(KEEP) $(BIN)/python -m compileall -q src
	$(TEMP) PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pytest tests -n $(JOBS) --dist worksteal --hypothesis-profile=ci

browser: ## Install the browser that tests of pages use, on Debian as root.
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || { apt-get -qq update \
		&& DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium >/dev/null; }

check: $(CHECKS) ## Lint, types, layers, fixtures, docs and help texts.

check-code: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet .github

check-mypy: $(STAMP)
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 src

check-pyright: $(STAMP)
	$(BIN)/pyright

check-fixtures: $(STAMP)
	$(BIN)/python fixtures/build/build.py --check
	$(BIN)/python examples/real-answers/build.py --check
	$(BIN)/regauge lint

check-docs: $(STAMP)
	$(BIN)/python -m cogapp --check -p "import os; os.environ['COLUMNS'] = '100'" README.md docs/reference/*.md
	$(BIN)/python -m docs.plots --check
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build

format: $(STAMP) ## Format and fix what can be fixed.
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP) ## Write the generated parts of the docs and build them.
	$(BIN)/python -m tests.docs
	$(BIN)/python -m docs.plots
	$(BIN)/python -m cogapp -r -p "import os; os.environ['COLUMNS'] = '100'" README.md docs/reference/*.md
	$(BIN)/sphinx-build docs docs/_build

golden: $(STAMP) ## Build the golden datasets from their sources.
	$(BIN)/python fixtures/build/build.py

lock: $(STAMP) ## Resolve the dependencies of all extras.
	$(UV_COMPILE) --output-file requirements.lock

clean: ## Remove what set-up and runs leave behind.
	rm -rf $(VENV) .regauge examples/*/.regauge .pytest_cache .mypy_cache .ruff_cache .import_linter_cache docs/_build dist

help: ## Show this list.
	@grep -E '^[a-z]+:.*##' Makefile | sed 's/:.*## /\t/'

# The lock holds all that is installed, hash by hash, so pip resolves nothing; the package itself
# is linked to the checkout.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "regauge needs Python 3.11 or newer; say which: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
		-r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		$(if $(WHEEL),$(WHEEL),--no-build-isolation --editable .)
	@touch $@
