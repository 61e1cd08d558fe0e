"""A distribution as text, for options and plans: ``exponential(0.05)``, ``lognormal(0.6, cov=2)``, or just a number."""

from __future__ import annotations

import ast
from typing import Any

from . import distributions
from .distribution import Distribution

_BY_NAME = {
    name: getattr(distributions, name)
    for name in (
        "constant", "empirical", "exponential", "gamma", "lognormal", "pareto", "truncated_exponential", "uniform",
        "weibull",
    )
}  # fmt: skip


def distribution_from_text(text: str) -> Distribution:
    """The distribution that a locustfile would have for this text; a number in seconds stands for a constant.

    Nothing is evaluated but the name of a distribution and numbers. Raises ValueError for anything else, and for
    impossible settings.

    >>> distribution_from_text("lognormal(0.6, cov=2)"), distribution_from_text("0.05")
    (lognormal(mean=0.6, cov=2.0), constant(mean=0.05))
    >>> distribution_from_text("exponential(open('x'))")
    Traceback (most recent call last):
    ValueError: "exponential(open('x'))" must be a number of seconds or a distribution such as exponential(0.05)
    """
    wrong = f"{text!r} must be a number of seconds or a distribution such as exponential(0.05)"
    try:
        node = ast.parse(text.strip(), mode="eval").body
        if not isinstance(node, ast.Call):
            return distributions.constant(ast.literal_eval(node))
        if not isinstance(node.func, ast.Name) or node.func.id not in _BY_NAME:
            raise ValueError(wrong + f"; there are {', '.join(sorted(_BY_NAME))}")
        positional = [ast.literal_eval(argument) for argument in node.args]
        named: dict[str, Any] = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
    except SyntaxError:
        raise ValueError(wrong) from None
    except ValueError as error:
        raise ValueError(str(error) if "must be" in str(error) else wrong) from None
    try:
        made: Distribution = _BY_NAME[node.func.id](*positional, **named)
    except TypeError as error:
        raise ValueError(f"{text!r}: {error}") from None
    return made
