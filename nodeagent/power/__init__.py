"""Power of nodes through fence-agents: the levels of `power.toml`, and proof of on and off."""
