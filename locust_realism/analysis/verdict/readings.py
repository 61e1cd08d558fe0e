"""Readings of amber and red checks in words, and Brady's names of the three distortions (CMG 2019)."""

from __future__ import annotations

from typing import NamedTuple

HEAVY = "heavy workload"
THINK = "think time method used"
FEEDBACK = "closed loop feedback"


class Reading(NamedTuple):
    """Meaning of an amber or red check, and the advice."""

    meaning: str = ""
    advice: str = ""


NO_READING = Reading()

_VARY = "Draw think times from a distribution such as the exponential, or plan Poisson arrivals."
_RANDOM_STARTS = "Start users one by one at random times, and let think times vary"

BUNCHED = Reading("Requests are launched in bunches.", "See which of the causes below makes them.")
TOO_EVEN = Reading(f"Requests are launched too evenly ({THINK}).", _VARY)
PAUSES = Reading(
    "The CoV comes from single pauses of the whole test rather than from bunching.",
    "Look at what stopped at that time (generator, network or server) and analyse the run without it.",
)
APART = Reading(f"Launches keep a distance from each other ({THINK}).", _VARY)
BATCHES = Reading(
    f"Requests leave in batches; where the generator wakes users in batches this is {HEAVY}.",
    "Add workers, use fewer users a worker, and do not start users in groups.",
)
OVERLOADED = Reading(
    f"The generator cannot keep up: it delays launches and response times ({HEAVY}).",
    "Add workers, lower the load, or move work out of the tasks.",
)
PACED = Reading(
    f"The server paces its own users: when it slows down they ask less ({FEEDBACK}).",
    "Real users do not wait for each other: use more users with longer think times, or open arrivals.",
)
EVEN_SCALE = Reading(
    f"At this scale the load is too even: a fixed pool of users, or think times too regular ({THINK}).",
    "Let users come and go (a population with Poisson arrivals), or let think times vary more.",
)
WAVES = Reading("At this scale the load comes in waves: users that start or move together.", _RANDOM_STARTS + ".")
WAVES_OF_POOL = Reading(WAVES.meaning, _RANDOM_STARTS + ", or leave out the start with --realism-warmup.")
FEW_USERS = Reading(
    f"Too few users, or think times too regular: the launches of few of them are not independent ({THINK}).",
    "Use more users with longer think times, or think times that vary more, such as the exponential.",
)
OFF_TARGET = Reading(
    f"Users do not think as long as planned ({THINK}).",
    "Look at the generator's lateness and at what the tasks do between their requests.",
)
CLOCKWORK = Reading(
    f"Each user thinks nearly as regularly as a clock, so that users can move in step ({THINK}).",
    "Draw think times from a distribution that varies more, such as the exponential.",
)
DEPENDENT = Reading("Launches depend on each other.", "See the other checks for the reason.")
COARSE_CLOCK = Reading(
    "The clock is too coarse: gaps within a tick are not known, and the raw CoV is too high.",
    "Record launches in microseconds; the checks use times spread evenly over the ticks.",
)
OTHER_ARRIVALS = Reading(
    "The population does not arrive as planned: users start together, or too evenly.",
    "Look at the generator's lateness, and at workers that joined or left.",
)
UNSTEADY = Reading(
    "The run is not steady: its figures mix different states, and a rate that drifts raises the CoV.",
    "Leave out a longer warm-up, run longer, or give the planned rate so that it can be taken out.",
)
UNCERTIFIED = Reading(
    "Intervals between launches of different workers are not certified: offsets hide bunches that workers share.",
    "Trust the per-worker figures; synchronise the clocks better, or use workers on one machine.",
)
