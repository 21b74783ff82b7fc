"""Zones of which series are tried."""

ZONES = (
    "Europe/Zurich",  # last Sundays of March and October
    "America/New_York",  # at 02:00 of its own clocks
    "Australia/Sydney",  # the southern hemisphere
    "Australia/Lord_Howe",  # changed by half an hour
    "Asia/Kolkata",  # half an hour, never changed
    "Asia/Kathmandu",  # three quarters
    "Africa/Casablanca",  # changed for Ramadan
    "America/Santiago",  # at midnight
    "Pacific/Apia",  # a day left out in 2011
    "Europe/Dublin",  # where winter is the exception
    "Europe/Istanbul",  # stayed in summer time in 2016
    "Asia/Pyongyang",  # another half hour in 2015 and 2018
    "UTC",
)
