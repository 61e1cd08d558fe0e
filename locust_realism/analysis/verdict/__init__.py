"""Verdict: evidence from the launches, twelve checks, one judgement."""
