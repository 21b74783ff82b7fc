.PHONY: oracle
oracle: $(READY)  ## auto-repair beside the real harep, placement beside hbal and hail, on very many random clusters (EVERY=4: one in four)
	@$(PYTHON) -m tests.autorepair.oracle
	$(PYTHON) -m pytest -q -o cache_dir=build/failed/oracle -m oracle $(some) tests
