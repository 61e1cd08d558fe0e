"""Agreement of master and workers: the plan, the clocks and the random streams."""
