"""The stages: how far maintd goes by itself, each with all of those before it. Pure."""

OBSERVE, ADVISE, DRAIN, FULL = STAGES = ("observe", "advise", "drain", "full")
