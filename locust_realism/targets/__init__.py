"""Servers to try a load test on: processes of their own, whose capacity and service times queueing theory knows."""
