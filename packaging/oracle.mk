.PHONY: oracle
oracle: $(READY)  ## auto-repair beside the real harep, placement beside hbal and hail, on very many random clusters (EVERY=4: one in four; GANETI=3.1: in Debian 13)
	@$(call on_ganeti,$(PYTHON) -m tests.autorepair.oracle && $(PYTHON) -m pytest -q $(failed) -m oracle $(some) tests)
