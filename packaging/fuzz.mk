.PHONY: fuzz
fuzz: $(READY)    ## try bad inputs on every decoder and open port for FUZZ_SECONDS (300); keep what breaks one in tests/fuzz/corpus
	@FUZZ_SECONDS=$(or $(FUZZ_SECONDS),300) $(PYTHON) -m pytest -q -rf -p no:cacheprovider --timeout=0 -m "not measures" tests/fuzz
