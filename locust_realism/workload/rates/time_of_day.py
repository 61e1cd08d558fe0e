"""Times of day with a zone, such as "14:00 Europe/Berlin": the place in the day at which a run starts."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from locust_realism.common.validation import refusal

_FORMAT = "a time of day 'HH:MM[:SS] zone'"
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\s*(\S+)?")


def time_of_day(name: str, value: time | str) -> time:
    """Return a time of day with its zone, from a ``datetime.time`` or a text "HH:MM[:SS] zone".

    The zone is a name of the IANA database, "UTC", "Z" or an offset such as +02:00. Raises ValueError for anything
    else, and for a time without a zone: the machines of a distributed run may be in different ones.

    >>> time_of_day("peak_at", "14:30 +02:00").isoformat()
    '14:30:00+02:00'
    >>> time_of_day("peak_at", "14:30")
    Traceback (most recent call last):
    ValueError: peak_at needs a zone, such as '14:30 Europe/Berlin' or '14:30 UTC', not '14:30'
    """
    if isinstance(value, time):
        if value.tzinfo is None:
            raise ValueError(f"{name} needs a tzinfo, such as zoneinfo.ZoneInfo('Europe/Berlin'), not {value!r}")
        return value
    found = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise refusal(name, f"a number of seconds or {_FORMAT}", value)
    hour, minute, second, zone = found.groups()
    if zone is None:
        raise ValueError(f"{name} needs a zone, such as '{found[0]} Europe/Berlin' or '{found[0]} UTC', not {value!r}")
    try:
        return time(int(hour), int(minute), int(second or 0), tzinfo=_zone(zone))
    except (ValueError, ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"{refusal(name, _FORMAT, value)}: {error}") from None


def _zone(text: str) -> tzinfo | None:
    with suppress(ValueError):
        return datetime.strptime("Z" if text == "UTC" else text, "%z").tzinfo
    return ZoneInfo(text)


def seconds_since(at: time, now: datetime) -> float:
    """Return the seconds since the last ``at`` in its zone, until ``now``, a datetime with a zone.

    >>> seconds_since(time_of_day("at", "22:00 UTC"), datetime(2026, 3, 1, 1, 0, tzinfo=UTC))
    10800.0
    """
    local = now.astimezone(at.tzinfo)
    last = datetime.combine(local.date(), at)
    # Subtract in UTC: within a zone Python ignores a change to or from summer time in between.
    if last.astimezone(UTC) > now.astimezone(UTC):
        last = datetime.combine(local.date() - timedelta(days=1), at)
    return (now.astimezone(UTC) - last.astimezone(UTC)).total_seconds()
