PEERS := build/peers

.PHONY: bench
bench: $(READY) $(PEERS)/.tried   ## measure beside ganeti-mond, hbal and others; QUICK=1 asks less (build/bench.json)
	@$(PYTHON) -m tests.bench $(if $(QUICK),--quick)
	@$(PYTHON) -m tests.bench.start $(if $(QUICK),--quick)
	@$(PYTHON) -m tests.bench.idle $(if $(QUICK),--quick)
	@$(PYTHON) -m tests.bench.readers $(if $(QUICK),--quick)
	@$(PYTHON) -m tests.bench.page $(if $(QUICK),--quick)
	@$(PYTHON) -m tests.bench.poll $(if $(QUICK),--quick)
	@$(PYTHON) -m tests.bench.decide $(if $(QUICK),--quick)
	@$(PYTHON) -m tests.bench.evacuation $(if $(QUICK),--quick)
	@$(PYTHON) -m tests.bench.night $(if $(QUICK),--quick)
	@$(PYTHON) -m tests.bench.rolls $(if $(QUICK),--quick)
	@$(PYTHON) -m tests.bench.save $(if $(QUICK),--quick)
	@$(PYTHON) -m tests.bench.autorepair $(if $(QUICK),--quick)
	@$(PYTHON) -m tests.bench.dedicated $(if $(QUICK),--quick)
	@$(PYTHON) -m tests.bench.placement $(if $(QUICK),--quick)

.PHONY: measure
measure: $(READY) ## tests of time and memory, one by one, on an idle machine
	@$(PYTHON) -m pytest -q -rfEs -m measures tests

# Measured beside us, and used for nothing else; without a network the comparison is left out.
$(PEERS)/.tried:
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --target $(PEERS) aiohttp==3.13.2 \
		|| echo "bench: no aiohttp to compare a poll with" >&2
	@mkdir -p $(PEERS) && touch $@
