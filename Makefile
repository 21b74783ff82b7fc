# Everything a newcomer, a packager or CI runs. The virtual environment makes itself.
VENV   := .venv
PYTHON := $(VENV)/bin/python
READY  := $(VENV)/.ready

# Tests start thousands of processes: each would compile all it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo demo-test test check stories test-real conformance nightly decisions cases

help:             ## show these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

# Of the slow suites the seventh whose turn it is on that day.
some = $(if $(TURN),--turn=$(TURN))

demo: $(READY)    ## a node breaks, is evacuated, mended and filled (KEEP=1 stays up)
	@$(PYTHON) -m simulation.demo $(if $(KEEP),--keep)

demo-test: $(READY) ## the demo keeps its promises, and so does each line that it prints to try
	@$(PYTHON) -m pytest -q -rf -p no:cacheprovider -m demo tests/journeys

check: $(READY)   ## formatting, lint, types, words
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy nodeagent simulation tests
	$(PYTHON) -m tests.words

quick = $(PYTHON) -m pytest -q -rfEs --durations=40 $(some)
# While types are checked one process compiles the tests, so that not each of them does it. One
# worker more than cores works while another waits for a process; each collects all tests: 7 s.
compiled = $(VENV)/.tests-compiled
test: $(READY)    ## lint, types and the whole quick suite on all cores (WORKERS=1: one by one)
	@[ -z "$$(find tests -name '*.py' -newer $(compiled) 2>&1)" ] || \
	{ $(PYTHON) -m pytest -q -p no:cacheprovider --collect-only; touch $(compiled); } >/dev/null 2>&1 & \
	$(MAKE) --no-print-directory check; code=$$?; wait; exit $$code
	@$(quick) -n $(or $(WORKERS),$(shell expr 1 + $$(nproc))) --dist loadfile --no-loadscope-reorder
	@packaging/turning --failed

cases: $(READY)   ## inputs of public bug reports, each beside its right result (../shared/cases)
	@$(PYTHON) -m tests.cases

decisions: $(READY) ## renew, on purpose, the rounds that tests/maintd/test_decisions.py decides again (AGAIN=1: the same rounds, and what differs; REAL=1: real ones too; root)
ifdef AGAIN
	$(PYTHON) -m tests.maintd.decisions again
else
	rm -rf build/decisions
	DECISIONS_INTO="$(CURDIR)/build/decisions" $(PYTHON) -m pytest -q -p tests.maintd.decisions tests/maintd
	$(if $(REAL),DECISIONS_INTO="$(CURDIR)/build/decisions" $(PYTHON) -m pytest -q -m real tests/real)
	$(PYTHON) -m tests.maintd.decisions build/decisions
endif

# Beside the Ganeti that is asked for, in the Debian that ships it; else beside this machine's.
on_ganeti = $(if $(GANETI),packaging/with-ganeti $(GANETI) $@,$(1))

real = $(PYTHON) -m pytest -q -rf --durations=20 -p no:cacheprovider $(some)

release = $(if $(GANETI_WANTED),3_1,3_0)
stories: $(READY) ## lives of each kind on a real Ganeti cluster, half of them on each release (root; GANETI=3.1: in Debian 13)
	@$(call on_ganeti,$(real) -m "story or story_$(release)" tests/real tests/cluster tests/test_matrix.py)

test-real: $(READY) ## our backends and maintd on a real Ganeti cluster of three nodes (root; slow; GANETI=3.1: in Debian 13)
	@$(call on_ganeti,$(real) -m real $(or $(REAL),tests/real))

versions = tests/cluster/test_versions.py $(patsubst %,tests/real/test_%.py,confd mond hbal)
conformance: $(READY) ## what every backend must keep, asked of the real cluster too (root; slow; GANETI=3.1: in Debian 13)
	@$(call on_ganeti,$(real) -m "real or not real" tests/cluster/test_conformance.py tests/cluster/ganeti/test_unless_back.py $(versions) tests/test_matrix.py)

$(READY): pyproject.toml packaging/setup-venv
	@packaging/setup-venv $(VENV)
	@touch $@

nightly: export LIFE_TIMES = 10
nightly: export PYTEST_TIMEOUT = 1200
nightly: export FUZZ_PLACES = all
nightly:          ## every suite, uncut, with new random lives each time: hours (root)
	@$(MAKE) --no-print-directory fuzz FUZZ_SECONDS=$(or $(FUZZ_SECONDS),3600)
	@$(MAKE) --no-print-directory conformance test-real oracle GANETI=3.1
	@$(MAKE) --no-print-directory package-test SUITE="bookworm trixie"
	@$(MAKE) --no-print-directory ansible-test PACKAGES=build/package
	@$(MAKE) --no-print-directory ansible-test PACKAGES=build/package GANETI=3.1
	@$(MAKE) --no-print-directory demo-test test conformance test-real oracle fresh-test test-power year site bench

include $(wildcard packaging/*.mk)
