"""Populations of users who arrive, stay and leave; building one registers the control for Locust's init event."""

from locust_realism.runtime.coordination.plan import on_init
from locust_realism.runtime.population.control import attach_at_init
from locust_realism.runtime.population.model import when_built

when_built(lambda: on_init(attach_at_init))
