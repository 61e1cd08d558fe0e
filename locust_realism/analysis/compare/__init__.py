"""Comparison of two sides of runs, by name and by level of concurrency."""
