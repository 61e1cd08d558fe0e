"""Meaning of a run: pure functions of arrays and launch logs."""
