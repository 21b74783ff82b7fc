# Packages for the distributions, and their trial in a fresh one.
.PHONY: package package-test

package:          ## build .deb and .rpm packages in build/package
	@packaging/build

package-test: $(READY)  ## try the packages in a fresh Debian 12: install, run, upgrade, purge (root)
	@packaging/test-in-debian12
