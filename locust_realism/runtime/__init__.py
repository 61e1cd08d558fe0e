"""The edge to Locust: recording, pacing and populations in a running test."""
