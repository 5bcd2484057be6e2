# What a developer types every day. `make` alone lists it; CONTRIBUTING.md has the other commands.

SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
LOCK := requirements/dev.lock
# Each start of Airflow would otherwise compile thousands of modules again.
unexport PYTHONDONTWRITEBYTECODE

# deploy, doctor and plan work with the profile that is named: PROFILE=staging.
ifdef PROFILE
export DEDUP_CLONE_PROFILE := $(PROFILE)
endif

UV := uv==0.13.9
# Holds the lock that the environment was built from: the same text again needs no installation.
STAMP := $(VENV)/installed.lock

# What makes a site of docs/: MkDocs, and Mermaid from npm for the diagrams.
DOCS_VENV := .venv-docs
DOCS_LOCK := requirements/docs.lock
DOCS_STAMP := $(DOCS_VENV)/installed.lock
MERMAID := mermaid@11.6.0

# Environments of other versions, each a file in requirements/portability. The lock has Spark 4.0.
PORTABILITY := dataproc-2.3 spark-3.5 spark-4.1

# A Spark session belongs to a process, so a file stays whole. In the order of the folders the long ones come before
# the many short ones, and nobody waits for a long one at the end.
SIDE_BY_SIDE := -n 3 --dist loadfile --no-loadscope-reorder

# The stand-in's own tests find nothing new unless it or a library changed: tests/conformance runs in any case.
STAND_IN_TESTS = $(shell test -z "$$CI" && git diff --quiet origin/main -- bigquery_standin tests/bigquery_standin $(LOCK) 2>/dev/null && \
	echo --ignore tests/bigquery_standin)

.PHONY: help setup demo up down land test fast soak portability check docs deploy doctor plan

help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Build the environment in .venv from the lock (again only when the lock changed)
	@if ! cmp -s $(LOCK) $(STAMP); then $(MAKE) --no-print-directory install; fi

.PHONY: install
install:
	@python=$$(devstack/require.sh python) && \
	{ test -x $(PY) || "$$python" -m venv $(VENV); } && \
	echo "Installing the packages of $(LOCK) into $(VENV): 2 GB, one to three minutes …" && \
	$(PY) -m pip install --quiet --disable-pip-version-check $(UV) && \
	$(PY) -m uv pip sync --quiet --python $(PY) --require-hashes $(LOCK) && \
	{ ! command -v java >/dev/null || { \
		echo "Archiving the classes that Spark loads, so that its jobs start faster: about a minute …"; \
		PYTHONPATH=plugins:. $(PY) -m devstack.spark_classes; }; } && \
	cp $(LOCK) $(STAMP)

demo: up ## Start the stack, land snapshots, follow them through the DAGs, check the tables
	@$(PY) -m devstack.demo

up: setup ## Start the local stack and wait until it is healthy
	@devstack/require.sh >/dev/null
	@$(PY) -m devstack.stack up

down: ## Stop everything that the stack started; its data stay under .local
	@if test -x $(PY); then $(PY) -m devstack.stack down; fi

land: ## Land one more snapshot of a feed in dags/feeds (FEED=store_visits, SNAPSHOT_ID=n to choose)
	@$(PY) -m devstack.producer land $(if $(FEED),--feed $(FEED)) $(if $(SNAPSHOT_ID),--snapshot-id $(SNAPSHOT_ID))

test: setup ## Run the tests: the quick ones three files at a time, then the real stack (NIGHT=1: with all cases, in hours)
	@devstack/require.sh >/dev/null
	$(PY) -m pytest -q $(SIDE_BY_SIDE) $(if $(NIGHT),--timeout 1800) --ignore tests/e2e $(STAND_IN_TESTS)
	$(PY) -m pytest -q tests/e2e

fast: setup ## Run the unit tests, which start no server: less than a minute
	$(PY) -m pytest -q -n 2 --dist loadfile tests/unit

soak: setup ## Kill every process at every step on the real stack, and all other long tests of it: more than an hour (FEEDS=24)
	@devstack/require.sh >/dev/null
	$(PY) -m pytest -v -m soak tests/e2e

docs: docs-setup ## Make the documentation a searchable site in .local/site (SERVE=1 shows it on 127.0.0.1:8000)
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs $(if $(SERVE),serve,build --quiet) --strict

.PHONY: docs-setup
docs-setup: setup
	@if ! cmp -s $(DOCS_LOCK) $(DOCS_STAMP); then \
		{ test -x $(DOCS_VENV)/bin/python || $(PY) -m venv $(DOCS_VENV); } && \
		$(PY) -m uv pip sync --python $(DOCS_VENV)/bin/python --require-hashes $(DOCS_LOCK) && \
		npm install --silent --no-audit --no-fund --prefix .local/docs $(MERMAID) && \
		cp $(DOCS_LOCK) $(DOCS_STAMP); fi

portability: setup ## Run the tests of the Spark job with other versions of Spark and of libraries (ONLY=dataproc-2.3, TESTS=file)
	@devstack/require.sh >/dev/null
	@for name in $(or $(ONLY),$(PORTABILITY)); do \
	  list=requirements/portability/$$name.txt; folder=.local/portability/$$name; \
	  if ! cmp -s $$list $$folder/installed.txt; then \
	    rm -rf $$folder && $(PY) -m venv --without-pip $$folder && \
	    $(PY) -m uv pip install --quiet --python $$folder/bin/python -r $$list && \
	    (cd $(VENV)/lib/python*/site-packages && pwd) > $$(echo $$folder/lib/python*/site-packages)/other-packages.pth && \
	    cp $$list $$folder/installed.txt || exit 1; \
	  fi; \
	  echo "$$name:" $$(grep -v '^#' $$list); \
	  $$folder/bin/python -m pytest -q $(SIDE_BY_SIDE) $(or $(TESTS),tests/spark) || exit 1; \
	done

check: setup ## Lint, formatting, types, import layers
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	PYTHONPATH=plugins:spark_jobs:. $(VENV)/bin/lint-imports

deploy: setup ## Show what a release to Google Cloud would change, ask, and do it (PROFILE=, PLAN=1, YES=1, WITH_PROBLEMS=1, TAKE_OVER=1)
	@$(PY) -m deploy release $(if $(PLAN),--plan) $(if $(YES),--yes) $(if $(WITH_PROBLEMS),--with-problems) \
		$(if $(TAKE_OVER),--take-over)

doctor: setup ## Check the live environment, change nothing, and name the command that fixes each problem
	@$(PY) -m deploy doctor

plan: setup ## Compare feed files with the published tables: changes, problems (FEED=; APPLY=1 approves a shorter retention)
	@# Its status 2 says that something changes. make itself has one status for all failures.
	@$(PY) -m deploy plan $(if $(FEED),--feed $(FEED)) $(if $(APPLY),--apply) \
		|| test $$? -eq 2
