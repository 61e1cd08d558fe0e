"""Signals, shutdown and the final report of a run."""
