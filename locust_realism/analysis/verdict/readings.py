"""Meanings of amber and red checks in words, and Brady's names of the three distortions (CMG 2019).

The advice belongs to the cause (:mod:`locust_realism.analysis.verdict.causes`), not to the check.
"""

from __future__ import annotations

HEAVY = "heavy workload"
THINK = "think time method used"
FEEDBACK = "closed loop feedback"

BUNCHED = "Requests are launched in bunches."
TOO_EVEN = "Requests are launched too evenly."
PAUSES = "The CoV comes from pauses of the whole test."
APART = "Launches keep a distance from each other."
BATCHES = "Requests leave in batches."
OVERLOADED = "The generator delays launches, and its measured response times include that delay."
PACED = "The server paces its own users: when it slows down, they send less."
STALLED = "Users wait while the server stalls, and go on together."
RETRIED = "Failures make load: users repeat failed requests at once."
EVEN_SCALE = "At this scale the load is too even."
WAVES = "At this scale the load comes in waves."
FEW_USERS = "The launches of few users together are not independent."
OFF_TARGET = "Users do not think as long as planned."
CLOCKWORK = "Each user thinks nearly as regularly as a clock."
DEPENDENT = "Launches depend on each other."
COARSE_CLOCK = "The clock is too coarse: gaps within a tick are unknown, and the raw CoV is too high."
OTHER_ARRIVALS = "The population does not arrive as planned: users start together, or too evenly."
DRIFTING = "The launch rate drifts, which raises the CoV."
UNSTEADY = "The response times mix different states of the run."
UNCERTIFIED = "Offsets of the clocks hide bunches that workers share."
