SITE := build/site-tools

.PHONY: site
site: $(SITE)/.ready ## build the documentation as a site, in build/site
	@command -v mandoc >/dev/null || { echo "site: mandoc is needed: apt-get install mandoc" >&2; exit 1; }
	@# Not --quiet: with it --strict sees no warning, such as that of a broken link.
	@NO_MKDOCS_2_WARNING=1 $(SITE)/bin/mkdocs build --strict --config-file packaging/site/mkdocs.yml \
	  >$(SITE)/log 2>&1 || { cat $(SITE)/log; exit 1; }
	@echo "open build/site/index.html"

$(SITE)/.ready: packaging/site.mk $(READY)
	@$(PYTHON) -m venv $(SITE)
	@$(SITE)/bin/pip install --quiet --disable-pip-version-check mkdocs-material==9.8.2
	@touch $@
