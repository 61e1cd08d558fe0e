"""What users intend: pure mathematics of think times, rate profiles, arrivals and populations.

Nothing in here reads a clock, uses a global random stream or imports Locust: time and randomness are arguments.
"""
