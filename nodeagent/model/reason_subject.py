"""Sorts of subjects that reasons are about. Pure."""

from enum import Enum


class Of(Enum):
    """Subjects of reasons."""

    CLUSTER = "cluster"
    GROUP = "group"
    NODE = "node"
    INSTANCE = "instance"
    ENTRY = "entry"
    WINDOW = "window"
