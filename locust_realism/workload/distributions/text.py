"""Distributions as text, for options and plans: ``exponential(0.05)``, ``lognormal(0.6, cov=2)``, ``50ms``."""

from __future__ import annotations

import ast

from locust_realism.common.durations import read_duration
from locust_realism.workload import distributions
from locust_realism.workload.distributions.base import Distribution


def distribution_from_text(text: str) -> Distribution:
    """Return the distribution that a locustfile would have for this text; a duration stands for a constant.

    Evaluates nothing but the name of a distribution and numbers. Raises ValueError for anything else, and for
    impossible settings.

    >>> distribution_from_text("lognormal(0.6, cov=2)"), distribution_from_text("50ms")
    (lognormal(mean=0.6, cov=2.0), constant(mean=0.05))
    >>> distribution_from_text("exponential(open('x'))")
    Traceback (most recent call last):
    ValueError: "exponential(open('x'))" must be a number of seconds or a distribution such as exponential(0.05)
    """
    wrong = ValueError(f"{text!r} must be a number of seconds or a distribution such as exponential(0.05)")
    try:
        return distributions.constant(read_duration(text))
    except ValueError:
        pass
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if not isinstance(node, ast.Call):
            return distributions.constant(ast.literal_eval(node))
        positional = [ast.literal_eval(argument) for argument in node.args]
        named = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
    except SyntaxError:
        raise wrong from None
    except ValueError as error:
        raise (error if "must be" in str(error) else wrong) from None
    if not isinstance(node.func, ast.Name) or node.func.id not in distributions.KINDS:
        raise ValueError(f"{wrong}; there are {', '.join(sorted(distributions.KINDS))}")
    try:
        made: Distribution = getattr(distributions, node.func.id)(*positional, **named)
    except TypeError as error:
        raise ValueError(f"{text!r}: {error}") from None
    return made
