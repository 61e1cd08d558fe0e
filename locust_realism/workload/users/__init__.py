"""Arrivals, sessions and populations of users as schedules and as theory."""
