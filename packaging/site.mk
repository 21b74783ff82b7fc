SITE := build/site-tools

.PHONY: site
site: $(SITE)/.ready ## build the documentation as a site, in build/site
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs --quiet build --strict --config-file packaging/site/mkdocs.yml
	@echo "open build/site/index.html"

$(SITE)/.ready: packaging/site.mk $(READY)
	@$(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/pip install --quiet --disable-pip-version-check mkdocs-material==9.8.2
	@touch $@
