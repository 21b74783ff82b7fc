# Beside another Ganeti's htools all that asks them is asked; this machine's were asked by `make test`.
asked = $(if $(GANETI_WANTED),oracle or htools,oracle)
worlds = $(if $(EVERY),--worlds $(shell expr 2000 / $(EVERY)))
.PHONY: oracle
oracle: $(READY)  ## auto-repair beside the real harep, placement beside hbal and hail, on very many random clusters (EVERY=4: one in four; GANETI=3.1: in Debian 13)
	@$(call on_ganeti,$(PYTHON) -m tests.autorepair.oracle $(worlds) && $(PYTHON) -m pytest -q -n $(or $(WORKERS),$(shell nproc)) $(failed) -m "$(asked)" $(some) tests)
