"""Tables, intervals and estimates of one log, and its steady state."""
