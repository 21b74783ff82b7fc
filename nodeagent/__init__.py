"""Node-health agent and maintenance daemon for Ganeti clusters."""

__version__ = "0.2.0"
