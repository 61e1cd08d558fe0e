"""Figures of the running test for the tabs, the console and the report."""
