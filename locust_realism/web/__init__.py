"""Tabs, JSON views and downloads inside the web UI of Locust."""
