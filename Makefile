# slackwater: everything a newcomer or a CI machine needs. `make help` lists it.
# The first call of any target sets the machine up (scripts/setup.py): .venv, pinned packages, Java.

.DEFAULT_GOAL := help
SHELL := /bin/sh

# The first Python that is new enough; `make PYTHON=/path/to/python3 ...` chooses another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

BIN := .venv/bin
STAMP := .venv/.ready

PYTEST := $(BIN)/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder -q

.PHONY: help setup demo test test-all test-deep fuzz mutants check bench docs clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

setup: $(STAMP)  ## .venv, pinned packages and Java; every other target does this first

$(STAMP): pyproject.toml constraints.txt scripts/setup.py
	@command -v "$(PYTHON)" >/dev/null || { \
		echo "set-up: Python 3.11 or newer not found. Debian, Ubuntu: sudo apt-get install python3 python3-venv"; exit 1; }
	@"$(PYTHON)" scripts/setup.py

demo: $(STAMP)  ## simulate a soccer match with wrong clocks, process it on Spark, write out/demo/report.html
	$(BIN)/slackwater run soccer --out out/demo --overwrite

test: $(STAMP)  ## the tests that protect every answer: minutes
	$(PYTEST) -m "not slow"

test-all: $(STAMP)  ## the slow ones: real sockets, kills, Spark, browsers, figures of the papers, all of docs
	-@$(BIN)/python scripts/network_programs.py
	$(PYTEST) -m "slow and not deep"

test-deep: $(STAMP)  ## before a release, for hours: examples by the thousand, seeds, kills; docs/testing.md keeps the last run
	-@$(BIN)/python scripts/network_programs.py
	$(PYTEST) -m deep -o timeout=3600 -o faulthandler_timeout=0

fuzz: $(STAMP)  ## property tests with fresh seeds: MINUTES=10, or SEED=N for one round anew
	$(BIN)/python scripts/fuzz.py --minutes $(or $(MINUTES),10) $(if $(SEED),--seed $(SEED)) $(TESTS)

mutants: $(STAMP)  ## which faults planted in the cores do the quick tests find? an hour; OPTIONS="--room order"
	$(BIN)/python -m scripts.mutants $(OPTIONS)

check: $(STAMP)  ## format, lint and types, as CI does
	@failed=0; for tool in "ruff format --check ." "ruff check ." mypy; do \
		echo "$(BIN)/$$tool"; $(BIN)/$$tool || failed=1; done; exit $$failed

bench: $(STAMP)  ## the speed table, as ratios within one run; all of it, though a goal be missed
	@missed=; for script in $(filter-out bench/workload.py,$(wildcard bench/*.py)); do echo "== $$script"; \
		$(BIN)/python -m bench.$$(basename $$script .py) || missed="$$missed $$script"; done; \
	[ -z "$$missed" ] || { echo "not met, or failed:$$missed"; exit 1; }

docs: $(STAMP)  ## the documentation as a site, searchable without a network: slackwater docs says where
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

clean:  ## removes what was built, but not .venv
	rm -rf build dist out slackwater/site spark-warehouse metastore_db derby.log *.egg-info \
		.pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -not -path './.venv/*' -prune -exec rm -rf {} +
