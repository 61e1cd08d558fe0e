"""Waits of a running test and the pacers that release them at a total rate."""
