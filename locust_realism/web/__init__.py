"""Who is shown it, live: tabs and JSON views inside the web UI of Locust."""
