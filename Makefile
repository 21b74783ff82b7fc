# Everything a newcomer, a packager or CI runs. The virtual environment makes itself.
VENV   := .venv
PYTHON := $(VENV)/bin/python
READY  := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo test check

help:             ## show these targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 18

demo: $(READY)    ## six agents, a simulated cluster, one broken node (KEEP=1 stays up)
	@$(PYTHON) -m nodeagent.cli.demo $(if $(KEEP),--keep)

check: $(READY)   ## formatting, lint, types
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy nodeagent tests

test: $(READY)    ## lint, types and the whole quick suite
	@$(MAKE) --no-print-directory check
	$(PYTHON) -m pytest -q

$(READY): pyproject.toml packaging/setup-venv
	@packaging/setup-venv $(VENV)
	@touch $@

include $(wildcard packaging/*.mk)
