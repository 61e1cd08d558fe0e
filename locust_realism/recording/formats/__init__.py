"""Readers and writers of launch records, one module a format."""
