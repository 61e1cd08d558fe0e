"""Summaries and comparisons as text, CSV, Parquet and offline HTML pages."""
