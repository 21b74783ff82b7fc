.PHONY: bench
bench: $(READY)   ## measure beside ganeti-mond, hbal and others; QUICK=1 asks less, PART=poll a part (build/bench.json)
	@$(PYTHON) -m tests.bench $(if $(QUICK),--quick) $(PART)

.PHONY: measure
measure: $(READY) ## tests of time and memory, one by one, on an idle machine
	@$(PYTHON) -m pytest -q -rfEs -m measures tests
