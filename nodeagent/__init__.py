"""Node-health agent and maintenance daemon for Ganeti clusters."""

__version__ = "1.0.0"
