"""The start form of the web UI reads our options as the command line does: the same units, bounds and messages.

Locust stores the text of a field after turning it into the type of the present value, or as text where there is none.
Here the texts are read by the option's own reader first: one that it refuses is shown on the form and nothing starts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from locust_realism.runtime.options import Option, known_options


def read_fields(form: Mapping[str, str], options: Iterable[Option]) -> dict[str, Any]:
    """The values of the options that a form has fields for; an empty field is the option's default.

    ValueError with the flag, the text and what was expected.

    >>> from locust_realism.runtime.options import bounded
    >>> option = Option("--think-time", 1.0, "Mean think time.", type=bounded(float, above=0))
    >>> read_fields({"think_time": "2.5", "user_count": "7"}, [option])
    {'think_time': 2.5}
    >>> read_fields({"think_time": "-1"}, [option])
    Traceback (most recent call last):
    ValueError: --think-time: '-1' must be a number > 0
    """
    values: dict[str, Any] = {}
    for option in options:
        text = form.get(option.dest)
        if text is None or option.type is None or not option.in_ui:
            continue
        if not text.strip():
            values[option.dest] = option.default
            continue
        try:
            values[option.dest] = option.type(text.strip())
        except (argparse.ArgumentTypeError, ValueError) as error:
            raise ValueError(f"{option.flag}: {error}") from None
        if option.choices is not None and values[option.dest] not in option.choices:
            allowed = ", ".join(map(str, option.choices))
            raise ValueError(f"{option.flag}: {text!r} must be one of {allowed}")
    return values


def watch_start_form(environment: Any, web_ui: Any) -> None:
    """Read the fields of a ``WebUI``'s start and edit forms by the options' own readers from now on."""
    from flask import jsonify, request

    swarm = web_ui.app.view_functions["locust.swarm"]

    def start() -> Any:
        try:
            values = read_fields(request.form, known_options())
        except ValueError as error:
            return jsonify({"success": False, "message": str(error), "host": environment.host})
        options = vars(environment.parsed_options) if environment.parsed_options else {}
        options.update(dict.fromkeys(values))  # of no type, so that Locust takes the text as it is
        answer = swarm()
        options.update(values)  # before the users start: that is a greenlet of its own
        return answer

    web_ui.app.view_functions["locust.swarm"] = web_ui.auth_required_if_enabled(start)
