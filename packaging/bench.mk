.PHONY: bench
bench: $(READY)   ## measure beside ganeti-mond and others; QUICK=1 asks less (build/bench.json)
	@$(PYTHON) -m tests.bench $(if $(QUICK),--quick)
