"""Experiments: a scenario over a grid of users, think times, seeds and servers, and what came of it.

A plan (:mod:`.plan`) is run cell by cell (:mod:`.runner`), each in a Locust of its own (:mod:`.process`), into one
Parquet file (:mod:`.results`) and one page (:mod:`.page`). Nothing here imports Locust.
"""
