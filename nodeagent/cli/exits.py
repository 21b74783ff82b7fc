"""Exit codes of all our commands; those of sysexits(3) where it has one."""

FAULT = 1  # refused, or failed
NOT_MASTER = 11  # as Ganeti's own master daemons end
USAGE = 64
UNAVAILABLE = 69  # nobody answers
BUG = 70
NOTED = 75  # asked for, and not answered yet
CONFIG = 78
INTERRUPTED = 130  # by Ctrl-C
