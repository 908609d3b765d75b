# `make run` serves a fleet, `make test` runs all checks and tests, `make` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:

BIN := .venv/bin
RUNTIME := .venv/.runtime
DEVELOPMENT := .venv/.development
DOCS := .venv/.docs
CODE := shared services examples tests

# Without bytecode files, each process of `make test` would compile every test again.
unexport PYTHONDONTWRITEBYTECODE

# The first Python that runs (a version manager's shim may exist but fail) and is recent enough.
FIND_PYTHON = for candidate in $(or $(PYTHON),python3.13 python3.12 python3.14 python3); do \
	if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; \
	then echo "$$candidate"; exit 0; fi; done; \
	echo "make: needs Python 3.12 or newer with its venv module; name one with make PYTHON=…" >&2; exit 1

PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALL_PROJECT = $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
# The files name every package there is to install: pip need not resolve them again, which takes long.
INSTALL_PACKAGES = $(PIP_INSTALL) --no-deps --require-hashes --requirement

##@ Development

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## "; print "make TARGET [ARGS=\"…\"]" } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: run
run: $(RUNTIME) ## Serve the whole stack on http://127.0.0.1:8080 (ARGS="--port 9000", HEADRACE_*)
	@exec $(BIN)/headrace dev $(ARGS)

.PHONY: observe
observe: $(RUNTIME) ## As run, with Prometheus beside it where it is installed (alerts of deploy/alerts.yml)
	@HEADRACE_OBSERVE_RULES=deploy/alerts.yml exec $(BIN)/headrace dev --observe $(ARGS)

.PHONY: test
test: $(if $(ARGS),check) ## Run all tests and, beside them, check (ARGS="tests/unit -k name": check, then these)
	@$(if $(ARGS),exec $(BIN)/python -m pytest $(ARGS),$(BESIDE))

# All tests take so long that the checks run beside them; either one fails `make test`.
define BESIDE
$(MAKE) --no-print-directory --jobs 2 --keep-going checked tested || \
	{ echo "make: a check or a test failed: see above" >&2; exit 1; }
endef

# What the checks say comes at once when they have ended, amid the progress of the tests.
.PHONY: checked
checked: $(DEVELOPMENT)
	@said=$$($(MAKE) --no-print-directory check 2>&1) && result=0 || result=$$?; \
		printf '\n%s\n' "$$said"; exit $$result

.PHONY: tested
tested: $(DEVELOPMENT)
	@exec $(BIN)/python -m pytest $(SPREAD) tests </dev/null

# Tests mostly wait, so there are more processes than cores: forks of one that has compiled and imported
# all tests (tests/support/forked_nodes.py). Tests of one file share servers and run in one process;
# files keep the tree's order, which has the long ones first, and two processes run what needs the shared
# stack (tests/support/stack_scheduling.py). Selected tests run in one process unless ARGS has -n.
SPREAD = --numprocesses 8 --dist loadfile --no-loadscope-reorder

.PHONY: check
check: $(DEVELOPMENT) ## Check lint, format, types and architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports

.PHONY: format
format: $(DEVELOPMENT) ## Format the code and apply lint fixes
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

##@ Benchmarks and long tests

.PHONY: bench
bench: $(DEVELOPMENT) ## Compare with the official SDK, fasta2a and a plain route; write docs/benchmarks.md and the README's figures
	@$(BIN)/python -m tests.benchmarks $(or $(ARGS),--record)
	@$(if $(ARGS),,$(BIN)/python -m tests.benchmarks.falls --record)
	@$(if $(ARGS),,$(BIN)/python -m tests.benchmarks.fleet)
	@$(if $(ARGS),,$(BIN)/python -m tests.benchmarks.delegation_hops)
	@$(if $(ARGS),,$(BIN)/python -m tests.benchmarks.telemetry)
	@$(if $(ARGS),,$(BIN)/python -m tests.benchmarks.steps)
	@$(if $(ARGS),,$(BIN)/python -m tests.benchmarks.checkpointers)

.PHONY: bench-falls
bench-falls: $(DEVELOPMENT) ## Fail if processor time, beside the SDK's, has become a quarter worse than recorded
	@exec $(BIN)/python -m tests.benchmarks.falls $(ARGS)

.PHONY: bench-scale
bench-scale: $(DEVELOPMENT) ## Measure a fleet with much of something (ARGS=processes, streams, subscribers, tasks or day)
	@exec $(BIN)/python -m tests.benchmarks.scale $(ARGS)

.PHONY: chaos
chaos: $(DEVELOPMENT) ## Run 10,000 tasks while processes die, freeze and leave (ARGS="--seed 7 --tasks 500 --nodes 3")
	@exec $(BIN)/python -m tests.chaos $(ARGS)

.PHONY: upgrade
upgrade: $(DEVELOPMENT) ## Roll a fleet from another revision to this tree and back, at work (FROM=v0.1.0; default: the last release)
	@exec $(BIN)/python -m tests.chaos.upgrade $(FROM) $(ARGS)

.PHONY: soak
soak: $(DEVELOPMENT) ## Run the long tests at their full sizes, and the property tests
	@HEADRACE_SOAK=1 exec $(BIN)/python -m pytest -m "soak or hypothesis" --timeout 1800 $(or $(ARGS),tests)

.PHONY: tck
tck: $(DEVELOPMENT) ## Run A2A's compatibility kit against a local stack (TCK=path of a copy)
	@exec $(BIN)/python -m tests.conformance $(or $(TCK),$(error name a copy of a2aproject/a2a-tck: make tck TCK=path)) $(ARGS)

##@ Containers (need Docker or Podman)

.PHONY: up
up: ## Start the stack of docker-compose.yml and wait until it is healthy
	deploy/passwords .env
	docker compose build gateway  # images of agents are made FROM its image
	docker compose up --build --detach --wait $(ARGS)
	@echo "ready http://localhost:$$(docker compose port proxy 8080 | sed 's/.*://')"

.PHONY: roll
roll: ## Rebuild the image and replace running containers without downtime (ARGS="worker")
	docker compose build gateway
	docker compose build
	deploy/roll $(or $(ARGS),task-state triggers worker gateway)

.PHONY: down
down: ## Stop the stack and delete its volumes
	docker compose down --volumes --remove-orphans $(ARGS)

.PHONY: test-containers
test-containers: $(DEVELOPMENT) ## Run tests against the official NATS and Valkey images (ARGS="tests/integration/shared")
	@HEADRACE_TEST_SERVERS=containers exec $(BIN)/python -m pytest $(or $(ARGS),$(SPREAD) tests)

.PHONY: test-chart
test-chart: ## Install the chart on a cluster of kind, run tasks over an upgrade, delete the cluster
	@exec deploy/try-chart

##@ Project

.PHONY: venv
venv: $(DEVELOPMENT) ## Install the development environment into .venv

.PHONY: docs
docs: $(DOCS) ## Build the documentation site into build/site; broken links fail; print the words of each section
	@rm -rf build/docs && mkdir -p build/docs
	@git ls-files -z --cached --others --exclude-standard $(SITE) | tar --null -cf - -T - | tar -xf - -C build/docs
	$(BIN)/zensical build --clean --strict
	@! grep -rlE '<(script|link|img)[^>]* (src|href)="?https?:' build/site --include='*.html' || \
		{ echo "these pages load something from a network" >&2; exit 1; }
	@$(BIN)/python -m tests.architecture.words

# The site's pages, and the files that they link to.
SITE = README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE docs examples deploy clients/javascript

.PHONY: lock
lock: $(DEVELOPMENT) ## Resolve the requirements files again (ARGS="--upgrade")
	$(LOCK) pyproject.toml --extra all --extra opentelemetry --group build \
		--output-file requirements.txt $(ARGS)
	$(LOCK) pyproject.toml --extra all --extra frameworks --extra opentelemetry --group build \
		--group test --group lock --constraint requirements.txt --output-file requirements-dev.txt $(ARGS)
	$(LOCK) --group docs --constraint requirements-dev.txt --output-file requirements-docs.txt $(ARGS)

LOCK = $(BIN)/uv pip compile --quiet --universal --python-version 3.12 \
	--generate-hashes --no-annotate --no-emit-index-url --no-header

.PHONY: audit
audit: $(DEVELOPMENT) ## Fail if a locked package of the runtime, the documentation or the console has a known vulnerability
	$(BIN)/uv tool run --exclude-newer $(AUDITED_BY) pip-audit@2.10.1 --strict --disable-pip --require-hashes \
		--progress-spinner off --requirement requirements.txt --requirement requirements-docs.txt
	npm audit --prefix services/console --package-lock-only --audit-level high

# The auditor's own packages are those of that day.
AUDITED_BY = 2026-11-01

.PHONY: dist
dist: $(DEVELOPMENT) ## Build the source distribution, and the wheel from it, into dist/
	$(BIN)/python -m build --no-isolation

.PHONY: release-check
release-check: ## Check that VERSION is that of the packages and of the changelog
	@grep -qxF 'version = "$(VERSION)"' pyproject.toml || { echo "pyproject.toml has another version" >&2; exit 1; }
	@grep -qF '"version": "$(SEMVER)"' clients/javascript/package.json || \
		{ echo "clients/javascript/package.json has another version" >&2; exit 1; }
	@grep -qxF 'appVersion: $(SEMVER)' deploy/helm/headrace/Chart.yaml || \
		{ echo "deploy/helm/headrace/Chart.yaml has another appVersion" >&2; exit 1; }
	@grep -qE '^## \[$(subst .,\.,$(VERSION))\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$$' CHANGELOG.md || \
		{ echo "CHANGELOG.md has no section [$(VERSION)] with a date" >&2; exit 1; }

# As npm and Helm have a candidate's version: 0.1.0-rc.1 for 0.1.0rc1.
SEMVER = $(shell sed -E 's/(a|b|rc)([0-9]+)$$/-\1.\2/' <<<'$(VERSION)')

.PHONY: release-artifacts
release-artifacts: docs ## Build all that a release has into build/release: packages, chart, site, SBOMs, checksums
	@exec $(BIN)/python -m tests.release.artifacts

.PHONY: release-rehearsal
release-rehearsal: $(DOCS) ## Build a candidate of the commit, install it into an empty folder, run tasks (VERSION=0.1.0rc1)
	@exec $(BIN)/python -m tests.release.rehearsal $(or $(VERSION),0.1.0rc1)

.PHONY: clean
clean: ## Delete .venv, data, caches and build output
	rm -rf .venv .headrace build dist .cache .mypy_cache .ruff_cache .pytest_cache \
		.import_linter_cache .hypothesis
	find . -name node_modules -prune -exec rm -rf {} + -o \
		-name __pycache__ -prune -exec rm -rf {} +

# Only packages in requirements*.txt are installed, and each is checked against its hash.

.venv/bin/python:
	@python=$$($(FIND_PYTHON)); "$$python" -m venv .venv

$(RUNTIME): requirements.txt pyproject.toml | .venv/bin/python
	@echo "make: installing requirements.txt into .venv" >&2
	@$(INSTALL_PACKAGES) requirements.txt
	@$(INSTALL_PROJECT)
	@touch $@

$(DEVELOPMENT): requirements-dev.txt pyproject.toml | .venv/bin/python
	@echo "make: installing requirements-dev.txt into .venv" >&2
	@$(INSTALL_PACKAGES) requirements-dev.txt
	@$(INSTALL_PROJECT)
	@touch $@ $(RUNTIME)  # a superset, at the same versions

$(DOCS): requirements-docs.txt | $(DEVELOPMENT)
	@echo "make: installing requirements-docs.txt into .venv" >&2
	@$(INSTALL_PACKAGES) requirements-docs.txt
	@touch $@
