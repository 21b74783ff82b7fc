# Real maintd and agents in network namespaces, while everything fails that can.
.PHONY: torture
torture: $(READY) ## three maintd, failovers, kills, cuts, stops, full disks (root; SEED=, MINUTES=, FAULTS=)
	@SEED="$(SEED)" MINUTES="$(MINUTES)" FAULTS="$(FAULTS)" $(PYTHON) -m pytest -q -rs -s -x -m torture tests/torture
