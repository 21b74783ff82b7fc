.PHONY: year
year: $(READY)    ## 10,000 machines go through a year with the repair queue's guards and without (QUICK=1: 400, a week)
	@$(PYTHON) -m tests.year $(if $(QUICK),--quick)
