# Headrace: `make run` serves, `make test` proves. `make` alone explains.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

BIN := .venv/bin
RUNTIME := .venv/.runtime
DEVELOPMENT := .venv/.development
CODE := shared services examples tests

# Who keeps bytecode away has each process of `make test` compile every test anew.
unexport PYTHONDONTWRITEBYTECODE

# The first Python that runs (a version manager's shim may exist and fail) and is new enough.
FIND_PYTHON = for candidate in $(or $(PYTHON),python3.13 python3.12 python3.14 python3); do \
	if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; \
	then echo "$$candidate"; exit 0; fi; done; \
	echo "make: needs Python 3.12 or newer with its venv module; name one with make PYTHON=…" >&2; exit 1

PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALL_PROJECT = $(PIP_INSTALL) --no-deps --no-build-isolation --editable .

##@ Everyday

.PHONY: help
help: ## Explain every target
	@awk 'BEGIN { FS = ":.*## "; print "make TARGET [ARGS=\"…\"]" } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: run
run: $(RUNTIME) ## Serve the whole stack on http://127.0.0.1:8080 (ARGS="--port 9000", HEADRACE_*)
	@exec $(BIN)/headrace dev $(ARGS)

.PHONY: test
test: check ## Prove it: everything in check, then every test (ARGS="tests/unit -k name")
	@exec $(BIN)/python -m pytest $(or $(ARGS),$(SPREAD) tests)

# Tests mostly wait, so more processes than cores; by files, which share servers and gateways. The
# order of the tree has the long ones first. Chosen tests run in one process, unless ARGS says -n.
SPREAD = --numprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: check
check: $(DEVELOPMENT) ## Lint, format, types, architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports

.PHONY: format
format: $(DEVELOPMENT) ## Rewrite the code as check wants it
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

##@ Larger sizes

.PHONY: bench
bench: $(DEVELOPMENT) ## Measure against the official SDK's in-process server: table and JSON
	@$(BIN)/python -m tests.benchmarks $(ARGS)
	@$(if $(ARGS),,$(BIN)/python -m tests.benchmarks.fleet)
	@$(if $(ARGS),,$(BIN)/python -m tests.benchmarks.delegation_hops)

.PHONY: chaos
chaos: $(DEVELOPMENT) ## 10,000 tasks while processes die, freeze and leave (ARGS="--seed 7 --tasks 500 --nodes 3")
	@exec $(BIN)/python -m tests.chaos $(ARGS)

.PHONY: soak
soak: $(DEVELOPMENT) ## The tests that need minutes, at their full sizes
	@HEADRACE_SOAK=1 exec $(BIN)/python -m pytest -m soak --timeout 1800 $(or $(ARGS),tests)

.PHONY: tck
tck: $(DEVELOPMENT) ## A2A's compatibility kit against a stack of ours (TCK=path of a copy)
	@exec $(BIN)/python -m tests.conformance $(or $(TCK),$(error name a copy of a2aproject/a2a-tck: make tck TCK=path)) $(ARGS)

##@ Containers (need Docker or Podman)

.PHONY: up
up: ## Start the stack of docker-compose.yml and wait until it is healthy
	deploy/passwords .env
	docker compose up --build --detach --wait $(ARGS)
	@echo "ready http://localhost:$${HEADRACE_HTTP_PORT:-8080}"

.PHONY: roll
roll: ## Build the image anew and replace what runs by it, without a gap (ARGS="worker")
	docker compose build
	deploy/roll $(or $(ARGS),task-state worker gateway)

.PHONY: down
down: ## Stop it and drop its volumes
	docker compose down --volumes --remove-orphans $(ARGS)

.PHONY: test-containers
test-containers: $(DEVELOPMENT) ## The tests on the official NATS and Valkey images (ARGS="tests/integration/shared")
	@HEADRACE_TEST_SERVERS=containers exec $(BIN)/python -m pytest $(or $(ARGS),$(SPREAD) tests)

##@ The project itself

.PHONY: venv
venv: $(DEVELOPMENT) ## Install everything that development needs into .venv

.PHONY: lock
lock: $(DEVELOPMENT) ## Resolve requirements.txt and requirements-dev.txt anew (ARGS="--upgrade")
	$(LOCK) --extra all --group build --output-file requirements.txt $(ARGS)
	$(LOCK) --extra all --extra frameworks --group build --group test --group lock \
		--constraint requirements.txt --output-file requirements-dev.txt $(ARGS)

LOCK = $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.12 \
	--generate-hashes --no-annotate --no-emit-index-url --no-header

.PHONY: wheel
wheel: $(DEVELOPMENT) ## Build the wheel into dist/
	$(BIN)/python -m build --wheel --no-isolation

.PHONY: clean
clean: ## Remove .venv, data, caches and everything built
	rm -rf .venv .headrace build dist .cache .mypy_cache .ruff_cache .pytest_cache \
		.import_linter_cache .hypothesis
	find . -name node_modules -prune -exec rm -rf {} + -o \
		-name __pycache__ -prune -exec rm -rf {} +

# Every package named in requirements*.txt is checked against its hash; nothing else is fetched.

.venv/bin/python:
	@python=$$($(FIND_PYTHON)); "$$python" -m venv .venv

$(RUNTIME): requirements.txt pyproject.toml | .venv/bin/python
	@echo "make: installing requirements.txt into .venv" >&2
	@$(PIP_INSTALL) --require-hashes --requirement requirements.txt
	@$(INSTALL_PROJECT)
	@touch $@

$(DEVELOPMENT): requirements-dev.txt pyproject.toml | .venv/bin/python
	@echo "make: installing requirements-dev.txt into .venv" >&2
	@$(PIP_INSTALL) --require-hashes --requirement requirements-dev.txt
	@$(INSTALL_PROJECT)
	@touch $@ $(RUNTIME)  # a superset, at the same versions
