# Real fence agents; the Redfish emulator is not in Debian and has libraries of its own.
SUSHY := build/sushy
.PHONY: test-power
test-power: $(READY) $(SUSHY)/.ready ## real fence agents on ipmi_sim, a Redfish emulator and SNMP to a stand-in PDU (root)
	@$(PYTHON) -m pytest -q -rs --durations=10 -m power $(some) tests/power

test-real: $(SUSHY)/.ready

$(SUSHY)/.ready: packaging/power.mk
	@/usr/bin/python3 -m venv --clear $(SUSHY)
	@$(SUSHY)/bin/pip install --quiet --disable-pip-version-check sushy-tools==2.2.0
	@touch $@
