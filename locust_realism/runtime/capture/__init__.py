"""Capture of every launch: request listener, transport to the master, files, accounting."""
