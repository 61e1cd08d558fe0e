"""Capacity: levels of concurrency, the scalability law, the knee and service levels."""
