# Beside another Ganeti's htools all that asks them is asked; this machine's were asked by `make test`.
asked = $(if $(GANETI_WANTED),oracle or htools,oracle)
.PHONY: oracle
oracle: $(READY)  ## auto-repair beside the real harep, placement beside hbal and hail, on very many random clusters (GANETI=3.1: in Debian 13)
	@$(call on_ganeti,$(PYTHON) -m pytest -q -n $(or $(WORKERS),$(shell nproc)) -rf -p no:cacheprovider -m "$(asked)" $(some) tests)
