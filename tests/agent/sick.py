"""Scripts of commands for a runner."""

OK = """#!/bin/sh
echo '{"status": "Ok"}'
"""


SICK = """#!/bin/sh
echo '{"status": "live-repair", "command": "fix", "details": {"bay": 7}}'
"""


FIX = """#!/bin/sh
cat >> {folder}/stdin
echo "ran $# $NODEAGENT_COMMAND"
echo trouble >&2
exit {code}
"""
