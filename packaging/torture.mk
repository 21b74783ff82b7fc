# Real etcd and real maintd in network namespaces, while everything fails that can.
.PHONY: torture
torture: $(READY) ## three etcd, three maintd, kills, cuts, stops, full disks, wrong clocks (root; SEED=, MINUTES=, FAULTS=)
	@SEED="$(SEED)" MINUTES="$(MINUTES)" FAULTS="$(FAULTS)" $(PYTHON) -m pytest -q -rs -s -x -m torture tests/torture
