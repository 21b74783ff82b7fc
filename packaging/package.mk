# Packages for the distributions, and their trial in a fresh one.
.PHONY: package package-test ansible-test fresh-test

package:          ## build .deb and .rpm packages in build/package
	@packaging/build

package-test: $(READY)  ## try the packages in a fresh Debian 12: install, run, upgrade, purge (root; SUITE="bookworm trixie": in 13 too; SUITE=--no-suite: without our tests; SUITE=--quick: what each user meets)
	@packaging/test-packages $(SUITE)

ansible-test:     ## try packaging/ansible over ssh on three machines of a real Ganeti cluster (root; GANETI=3.1: of Debian 13; PACKAGES=build/package: those that are built)
	@packaging/test-ansible $(PACKAGES)

fresh-test:       ## try the README's two commands in fresh Debians 12 and 13: root, a user, a path with a blank, an archive … (root; IN=blank: one of packaging/test-fresh --list; TURN=4: a seventh of the tests)
	@TURN=$(TURN) packaging/test-fresh bookworm $(IN:%=--in %)
	@TURN=$(TURN) packaging/test-fresh trixie $(IN:%=--in %)
