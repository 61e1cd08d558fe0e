"""Ground of every wing: validation, durations, numerics, JSON and supervision of child processes."""
