"""Workload of the users: pure mathematics of think times, rate profiles, arrivals and populations.

Time and randomness are arguments: no module reads a clock, has a global random stream or imports Locust.
"""
