"""Make a Locust load test behave like real users, and see whether it did."""
