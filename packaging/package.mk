# Packages for the distributions, and their trial in a fresh one.
.PHONY: package package-test fresh-test

package:          ## build .deb and .rpm packages in build/package
	@packaging/build

package-test: $(READY)  ## try the packages in a fresh Debian 12: install, run, upgrade, purge (root; SUITE="bookworm trixie": in 13 too; SUITE=--no-suite: without our tests)
	@packaging/test-packages $(SUITE)

fresh-test:       ## try the README's two commands in fresh Debians 12 and 13, as root and as a user (root)
	@packaging/test-fresh bookworm
	@packaging/test-fresh trixie
