"""Sweeps: a scenario over a grid of users, think times, seeds and servers, with one page of results.

The runner (:mod:`.runner`) runs a plan (:mod:`.design`) cell by cell, each in a Locust process of its own
(:mod:`.process`), into one Parquet file (:mod:`.results`) and one page (:mod:`.page`). No module here imports Locust.
"""
