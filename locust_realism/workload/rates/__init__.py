"""Arrival-rate profiles: rate, cumulative rate and inverse over time."""
