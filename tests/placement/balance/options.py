"""Options of hbal that are tried."""

OPTIONS: tuple[list[str], ...] = (
    [],
    ["--ignore-soft-errors"],
    ["--no-disk-moves"],
    ["--no-instance-moves"],
    ["--restricted-migration"],
    ["--evac-mode", "-O", "FIRST"],
    ["-O", "LAST"],
    ["--ignore-dynu"],
    ["--exclusion-tags=test,service", "--min-disk=0.1"],
    ["--max-cpu=0.4", "-l", "2"],
    ["-e", "1", "-g", "0.5", "--min-gain-limit=100"],
    ["--select-instances=SOME"],
)
