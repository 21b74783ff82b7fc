.PHONY: year
year: $(READY)    ## 10,000 machines go through a year: repair queue, dead nodes (QUICK=1: 400, a week)
	@$(PYTHON) -m tests.year $(if $(QUICK),--quick)
