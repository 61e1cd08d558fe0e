"""Times of day in any zone and season."""

from __future__ import annotations

from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest

from locust_realism.workload.rates.time_of_day import seconds_since, time_of_day


@pytest.mark.parametrize(
    ("text", "now", "hours"),
    [
        ("00:00 UTC", datetime(2026, 6, 1, 13, tzinfo=UTC), 13),
        ("14:00 Europe/Berlin", datetime(2026, 6, 1, 13, tzinfo=UTC), 1),  # 15:00 in Berlin
        ("14:00 Europe/Berlin", datetime(2026, 1, 1, 13, tzinfo=UTC), 0),
        ("14:00 Europe/Berlin", datetime(2026, 1, 1, 12, tzinfo=UTC), 23),
        ("00:00 -05:00", datetime(2026, 1, 1, 4, tzinfo=UTC), 23),
        ("00:00 +0530", datetime(2026, 1, 1, 0, tzinfo=UTC), 5.5),
        ("00:00 Europe/Berlin", datetime(2026, 3, 29, 10, tzinfo=UTC), 11),  # 12:00, an hour was left out in the night
        ("6:30:30 Z", datetime(2026, 1, 1, 6, 31, tzinfo=UTC), 30 / 3600),
    ],
)
def test_seconds_since_the_last_time(text: str, now: datetime, hours: float) -> None:
    assert seconds_since(time_of_day("at", text), now) == pytest.approx(hours * 3600)


def test_a_time_object_with_a_zone_is_accepted() -> None:
    at = time(14, tzinfo=ZoneInfo("Europe/Berlin"))
    assert time_of_day("peak_at", at) is at
    with pytest.raises(ValueError, match="peak_at needs a tzinfo"):
        time_of_day("peak_at", time(14))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("14:00", "needs a zone"),
        ("noon", "must be a number of seconds or a time of day"),
        ("25:00 UTC", "hour must be in 0..23"),
        ("14:00 Europe/Atlantis", "Europe/Atlantis"),
        ("14:00 ../etc/passwd", "must be a time of day"),
    ],
)
def test_other_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        time_of_day("peak_at", text)
