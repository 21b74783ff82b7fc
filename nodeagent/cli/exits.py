"""Exit codes of all our commands; those of sysexits(3) where one fits."""

FAULT = 1  # refused, or failed
NOT_MASTER = 11  # as Ganeti's own master daemons do
USAGE = 64
UNAVAILABLE = 69  # nobody answers
BUG = 70
NOTED = 75  # requested, and not answered yet
CONFIG = 78
INTERRUPTED = 130  # by Ctrl-C
