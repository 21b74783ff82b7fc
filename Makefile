# Everything a newcomer, a packager or CI runs. The virtual environment makes itself.
VENV   := .venv
PYTHON := $(VENV)/bin/python
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test check test-real conformance nightly

help:             ## show these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

# Of many tests alike, or of all, only so many.
some = $(if $(EVERY),--every=$(EVERY)) $(if $(PART),--part=$(PART))

demo: $(READY)    ## six agents, a simulated cluster, two broken nodes (KEEP=1 stays up)
	@$(PYTHON) -m nodeagent.cli.demo $(if $(KEEP),--keep)

check: $(READY)   ## formatting, lint, types
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy nodeagent tests

test: $(READY)    ## lint, types and the whole quick suite (AGAIN=1: what failed last; EVERY=4: of very many alike one in four; PART=4: of all)
	@$(MAKE) --no-print-directory check
	$(PYTHON) -m pytest -q -rfEs --durations=40 $(some) $(if $(AGAIN),--last-failed --last-failed-no-failures none)

# A real cluster beside other work is late now and then: what failed is tried once more, and told.
define once_more
$(PYTHON) -m pytest -q --durations=20 -o cache_dir=build/failed/$@ $(1) || { echo "once more, what failed:"; \
	$(PYTHON) -m pytest -q -o cache_dir=build/failed/$@ --last-failed --last-failed-no-failures none $(1); }
endef

test-real: $(READY) ## our backends and maintd on a real Ganeti cluster of three nodes (root; slow; EVERY=4: less)
	@$(call once_more,-m real $(some) $(or $(REAL),tests/real))

conformance: $(READY) ## what every backend must keep, asked of the real cluster too (root; slow; EVERY=4: less)
	@$(call once_more,-m "real or not real" $(some) tests/cluster/test_conformance.py)

$(READY): pyproject.toml packaging/setup-venv
	@packaging/setup-venv $(VENV)
	@touch $@

nightly: export FAULTS_REACHES = 100
nightly: export LIFECYCLE_EXAMPLES = 500
nightly: export REPAIRS_EXAMPLES = 500
nightly: export BALANCE_EXAMPLES = 100
nightly: export PYTEST_TIMEOUT = 1200
nightly:          ## every suite, uncut, with new random lives each time: hours (root)
	@$(MAKE) --no-print-directory demo test test-real conformance oracle package-test fresh-test year bench

include $(wildcard packaging/*.mk)
