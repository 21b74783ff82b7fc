.PHONY: fuzz
fuzz: $(READY)    ## try bad inputs on every decoder and open port for FUZZ_SECONDS (300); keep what breaks one in tests/fuzz/corpus
	@$(PYTHON) -m tests.fuzz $(or $(FUZZ_SECONDS),300)
