"""Users of a running test: sessions, clients, dispatch and precise wake-ups."""
