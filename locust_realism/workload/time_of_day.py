"""Times of day with their zone, such as "14:00 Europe/Berlin": where in its day a profile is when a run starts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\s*(\S+)?")
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})")


def time_of_day(name: str, value: time | str) -> time:
    """A time of day that knows its zone, from a ``datetime.time`` or a text "HH:MM[:SS] zone".

    The zone is a name of the IANA database, "UTC", "Z" or an offset such as +02:00. Raises ValueError for anything
    else, and for a time without a zone: the machines of a distributed run need not be in the same one.

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
        raise ValueError(f"{name} must be a number of seconds or a time of day 'HH:MM[:SS] zone', not {value!r}")
    hour, minute, second, zone = found.groups()
    if zone is None:
        shown = value.strip()
        raise ValueError(f"{name} needs a zone, such as '{shown} Europe/Berlin' or '{shown} UTC', not {value!r}")
    try:
        return time(int(hour), int(minute), int(second or 0), tzinfo=_zone(zone))
    except (ValueError, ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"{name} must be a time of day 'HH:MM[:SS] zone', not {value!r}: {error}") from None


def _zone(text: str) -> tzinfo:
    if text in ("UTC", "Z"):
        return UTC
    offset = _OFFSET.fullmatch(text)
    if offset is None:
        return ZoneInfo(text)
    shift = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
    return timezone(-shift if offset[1] == "-" else shift)


def seconds_since(at: time, now: datetime) -> float:
    """Seconds from the last time that the clock of the zone of ``at`` showed it until ``now`` (which knows its zone).

    >>> seconds_since(time_of_day("at", "22:00 UTC"), datetime(2026, 3, 1, 1, 0, tzinfo=UTC))
    10800.0
    """
    local = now.astimezone(at.tzinfo)
    last = datetime.combine(local.date(), at)
    # Differences are taken in UTC: within a zone Python ignores a change to or from summer time in between.
    if last.astimezone(UTC) > now.astimezone(UTC):
        last = datetime.combine(local.date() - timedelta(days=1), at)
    return (now.astimezone(UTC) - last.astimezone(UTC)).total_seconds()
