"""A log made from known parameters gives them back within their intervals."""

from __future__ import annotations

import random
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from log_support import Traffic, lines, traffic, write_log

from locust_realism.fit.arrival_rates import arrivals_of
from locust_realism.fit.fitting import fit_log
from locust_realism.fit.locustfile import render_locustfile
from locust_realism.fit.log_reading import FitSettings, read_log
from locust_realism.fit.rendering import profile_lines
from locust_realism.recording.columns import pack
from locust_realism.recording.formats import write_launches
from locust_realism.recording.launches import LaunchLog
from locust_realism.recording.spool import Spool
from locust_realism.workload.distributions import exponential, lognormal
from locust_realism.workload.rates.shapes import ConstantRate, SineRate

DAY = 86_400.0
REQUESTS = ["GET / HTTP/1.1", "GET /item/77?x=1 HTTP/1.1", "POST /cart HTTP/1.1"]
SHARES = [0.5, 0.3, 0.2]
DAYS = SineRate(min_rate=0.004, max_rate=0.04, period=DAY, peak_at=14 * 3600)
THINK = lognormal(40, cov=1.3)
MEAN_LENGTH = 6.0


@pytest.fixture(scope="module")
def made() -> Traffic:
    return traffic(DAYS, THINK, MEAN_LENGTH, SHARES, 4 * DAY, seed=20, returning=0.2)


@pytest.fixture(scope="module")
def rows(made: Traffic) -> list[str]:
    """Return the lines of the four days."""
    return lines(made, REQUESTS)


@pytest.fixture(scope="module")
def document(rows: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the document of four days in three unordered files: one is packed, one has lines out of order."""
    folder = tmp_path_factory.mktemp("logs")
    shaken = list(enumerate(rows))
    shaken.sort(key=lambda pair: pair[0] + random.Random(pair[0]).random() * 5)  # by the end of the request
    rows = [row for _, row in shaken]
    a, b = len(rows) // 4, len(rows) // 2
    files = [
        write_log(folder / "access.log", rows[b:]),
        write_log(folder / "access.log.1", rows[a:b]),
        write_log(folder / "access.log.2.gz", rows[:a]),
    ]
    return fit_log(files)


def test_think_times_are_recovered(document: dict[str, Any]) -> None:
    best = document["think_times"]["best"]
    assert best["family"] == "lognormal"
    for name, true in (("mean", THINK.mean), ("cov", THINK.cov)):
        low, high = best["parameters"][name]["interval"]
        assert low <= true <= high
        assert (high - low) / true < 0.1
    assert best["ks"] < 1.63 / document["think_times"]["n"] ** 0.5


def test_arrival_rate_is_recovered_hour_by_hour(document: dict[str, Any]) -> None:
    rows = document["arrivals"]["by_time_of_day"]
    assert len(rows) == 24

    def inside(profile: SineRate) -> int:
        true = [profile.mean_rate(3600, row["start_s"]) for row in rows]
        return sum(
            row["rate_interval"][0] <= rate <= row["rate_interval"][1] for row, rate in zip(rows, true, strict=True)
        )

    assert inside(DAYS) >= 20  # of 24 intervals of 95 %, fewer than 20 hold it once in 300 logs
    shifted = SineRate(min_rate=0.004, max_rate=0.04, period=DAY, peak_at=11 * 3600)
    assert inside(shifted) < 12
    low, high = document["arrivals"]["mean_rate_interval"]
    assert low <= DAYS.mean_rate(4 * DAY) <= high
    assert abs(document["arrivals"]["dispersion_between_days"] - 1) < 0.6


def test_session_lengths_and_mix_are_recovered(document: dict[str, Any], made: Traffic) -> None:
    sessions = document["sessions"]
    low, high = sessions["mean_length_interval"]
    assert low <= MEAN_LENGTH <= high
    assert high - low < 0.1 * MEAN_LENGTH
    # a geometric number of requests, and as many pauses less one
    low, high = sessions["mean_duration_interval_s"]
    assert low <= (MEAN_LENGTH - 1) * THINK.mean <= high
    assert sessions["concurrent"] == pytest.approx(DAYS.mean_rate(DAY) * 5 * 40, rel=0.1)
    assert sessions["single_share"] == pytest.approx(1 / 6, abs=4 * (5 / 36 / sessions["n"]) ** 0.5)
    shares = {(row["method"], row["name"]): row["share_interval"] for row in document["requests"]}
    names = [("GET", "/"), ("GET", "/item/{id}"), ("POST", "/cart")]
    for name, share in zip(names, SHARES, strict=True):
        assert shares[name][0] <= share <= shares[name][1]
    assert document["source"]["requests"] == len(made.time)
    assert document["warnings"] == []


def test_sessions_longer_than_the_log_have_a_mean_and_no_tail(tmp_path: Path) -> None:
    """2.5 hours from the middle of traffic with 50 requests a session, a minute apart."""
    made = traffic(ConstantRate(0.03), exponential(60), 50, [1.0], 7.5 * 3600, seed=9)
    rows = [row for row, s in zip(lines(made, REQUESTS[:1]), made.time.tolist(), strict=True) if s >= 5 * 3600]
    document = fit_log([write_log(tmp_path / "a.log", rows)])
    sessions = document["sessions"]
    low, high = sessions["mean_length_interval"]
    assert low <= 50 <= high < 75
    low, high = sessions["mean_duration_interval_s"]
    assert low <= 49 * 60 <= high
    assert sessions["unfinished"] > 0.2 * sessions["n"]
    assert sessions["unseen_share"] > 0.05
    assert sessions["p50_length"] == pytest.approx(35, rel=0.3)
    assert (sessions["p99_length"], sessions["p99_duration_s"], sessions["length_cov"]) == (None, None, None)
    values, counts = np.array(sessions["length_permille"]).T
    assert values @ counts / 1000 == pytest.approx(sessions["mean_length"], rel=0.02)
    assert any("h of log would show it" in warning for warning in document["warnings"])
    assert f"{sessions['mean_length']:.4g} requests" in render_locustfile(document)


@pytest.mark.parametrize("gaps", [1.9, 3.8])
def test_a_log_of_few_gaps_has_no_lengths_and_a_rate_that_holds_or_has_no_interval(gaps: float, tmp_path: Path) -> None:
    made = traffic(ConstantRate(0.03), exponential(60), 50, [1.0], 5 * 3600 + gaps * 1800, seed=9)
    rows = [row for row, s in zip(lines(made, REQUESTS[:1]), made.time.tolist(), strict=True) if s >= 5 * 3600]
    log = write_log(tmp_path / "a.log", rows)
    document = fit_log([log])
    sessions, arrivals = document["sessions"], document["arrivals"]
    assert [sessions[key] for key in ("mean_length", "mean_duration_s", "p50_length", "concurrent")] == [None] * 4
    assert any("2 h of log" in warning for warning in document["warnings"])
    locustfile = render_locustfile(document)
    assert "whole ones are longer" in locustfile
    low, high = arrivals["mean_rate_interval"]
    profile = profile_lines(document)[-1].split(",")
    if gaps < 2:
        assert (low, high, *profile[2:4]) == (None, None, "", "")
        assert "Too many" in locustfile
        assert any("count as new" in warning and "1 h of log" in warning for warning in document["warnings"])
    else:
        assert low <= 0.03 <= high
        read = read_log([log], FitSettings())
        naive = arrivals_of(read, FitSettings(), early=True)
        assert naive["mean_rate"] > 1.3 * 0.03, "the negative control: sessions under way at the start count"


def test_a_log_without_a_session_between_its_gaps_has_a_reason(tmp_path: Path) -> None:
    """One visitor for 6.7 hours."""
    row = '1.1.1.1 - - [01/May/2024:{:02d}:{:02d}:00 +0000] "GET /a HTTP/1.1" 200 1'
    log = [row.format(*divmod(minute, 60)) for minute in range(400)]
    document = fit_log([write_log(tmp_path / "a.log", log)])
    assert document["sessions"]["mean_length"] is None
    assert any("try twice as much log (13.3 h)" in warning for warning in document["warnings"])
    locustfile = render_locustfile(document)
    assert "[400] * 1000" in locustfile
    assert "# Nobody" in locustfile


def test_short_gap_gives_other_parameters(rows: list[str], tmp_path: Path) -> None:
    """Negative control: a gap of 30 s gives other parameters, on the first of the four days."""
    log = write_log(tmp_path / "a.log", rows[: len(rows) // 4])
    cut = fit_log([log], FitSettings(gap_s=30))
    assert cut["sessions"]["mean_length_interval"][1] < 0.6 * MEAN_LENGTH
    assert cut["arrivals"]["mean_rate_interval"][0] > 1.5 * DAYS.mean_rate(DAY)
    assert any("longer than the gap" in warning for warning in cut["warnings"])
    by_address = fit_log([log], FitSettings(visitor="client"))  # three visitors share an address
    assert by_address["sessions"]["mean_length_interval"][0] > MEAN_LENGTH


def test_static_files_hide_the_think_times_until_they_are_left_out(tmp_path: Path) -> None:
    made = traffic(ConstantRate(0.015), exponential(20), 5, [1.0], DAY, seed=4)
    pages = lines(made, REQUESTS[:1])
    rows = [row for page in pages for row in [page, *(page.replace("GET / ", f"GET /{n}.css ") for n in "ab")]]
    log = write_log(tmp_path / "a.log", rows)
    all_of_it = fit_log([log])
    assert any("--no-static" in warning for warning in all_of_it["warnings"])
    assert all_of_it["think_times"]["mean_s"] < 10
    pages_only = fit_log([log], FitSettings(no_static=True))
    assert pages_only["source"]["left_out"] == {"static files": 2 * len(pages)}
    low, high = pages_only["think_times"]["best"]["parameters"]["mean"]["interval"]
    assert pages_only["think_times"]["best"]["family"] == "exponential"
    assert low <= 20 <= high


def test_weekdays_and_summer_time_follow_the_zone(tmp_path: Path) -> None:
    """29 March 2026, a Sunday, has 23 hours in Berlin; the log is written in UTC."""
    start = datetime.fromisoformat("2026-03-28T00:00:00+01:00").timestamp()
    made = traffic(ConstantRate(0.02), exponential(5), 1, [1.0], 3 * DAY, seed=5)
    log = write_log(tmp_path / "a.log", lines(made, REQUESTS[:1], start=start, offset_h=0.0))
    berlin = fit_log([log], FitSettings(timezone="Europe/Berlin", bin_s=3600))
    days = {row["day"]: row["observed_s"] / 3600 for row in berlin["arrivals"]["by_weekday"]}
    assert days["Sunday"] == pytest.approx(23)
    assert days["Monday"] == pytest.approx(24, abs=0.1)
    two = berlin["arrivals"]["by_time_of_day"][2]
    assert two["observed_s"] == pytest.approx(
        2 * 3600, abs=200
    )  # twice in three days, but for the time to the next request
    low, high = two["rate_interval"]
    assert low <= 0.02 <= high
    utc = fit_log([log])
    assert [row["day"] for row in utc["arrivals"]["by_weekday"]] == ["Monday", "Friday", "Saturday", "Sunday"]
    assert utc["source"]["zone"] == "+00:00"


def test_a_week_is_given_by_day_and_hour(tmp_path: Path) -> None:
    quiet = {5, 6}  # Saturday, Sunday
    made = traffic(ConstantRate(0.01), exponential(5), 1, [1.0], 14 * DAY, seed=6)
    rows = [
        row
        for row, second in zip(lines(made, REQUESTS[:1]), made.time.tolist(), strict=True)
        if int(second // DAY) % 7 not in quiet or hash(int(second)) % 4 == 0
    ]
    arrivals = fit_log([write_log(tmp_path / "a.log", rows)])["arrivals"]
    by_day = {row["day"]: row["rate"] for row in arrivals["by_weekday"]}
    assert len(arrivals["by_time_of_week"]) == 168
    assert max(by_day["Saturday"], by_day["Sunday"]) < 0.6 * min(by_day[day] for day in ("Monday", "Friday"))
    assert arrivals["dispersion_between_days"] > 1.3


def test_day_without_requests_counts_as_not_recorded(tmp_path: Path) -> None:
    made = traffic(ConstantRate(0.02), exponential(5), 1, [1.0], 4 * DAY, seed=7)
    rows = lines(made, REQUESTS[:1])
    rows = [row for row, second in zip(rows, made.time, strict=True) if not DAY <= second < 2 * DAY]
    wrong = rows[-1].replace("Mar/2026", "Mar/2031")  # one line of another year changes next to nothing
    document = fit_log([write_log(tmp_path / "a.log", [*rows, wrong])])
    low, high = document["arrivals"]["mean_rate_interval"]
    assert low <= 0.02 <= high
    assert any("days without any request" in warning for warning in document["warnings"])


def test_recording_of_a_load_test_is_fitted_by_user_slot(tmp_path: Path) -> None:
    """Answers are known here: think times exclude response times."""
    rng = np.random.default_rng(8)
    users, each = 40, 60
    think, response = rng.exponential(3.0, (users, each)), rng.uniform(0.5, 1.5, (users, each))
    launch = 1_770_000_000 + np.cumsum(think + np.roll(response, 1, axis=1), axis=1)
    log = LaunchLog.build(
        np.rint(launch.ravel() * 1e3).astype(np.int64) * 1000,
        np.rint(response.ravel() * 1e3).astype(np.int64) * 1000,
        slot=np.repeat(np.arange(users), each),
    )
    path = tmp_path / "run.jtl"
    write_launches(log.sorted_by_launch(), path)
    document = fit_log([path])
    best = document["think_times"]["best"]
    assert not document["think_times"]["includes_response_times"]
    assert best["family"] == "exponential"
    low, high = best["parameters"]["mean"]["interval"]
    assert low <= 3 <= high
    assert document["sessions"]["n"] == users
    assert document["source"]["format"] == "jtl"

    spool = Spool(tmp_path / "recording")
    spool.add(pack(log), len(log))
    spool.close()
    recorded = fit_log([spool.directory])
    assert recorded["source"]["format"] == "recording"
    assert recorded["think_times"]["best"] == best


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gap_s": 0}, "gap_s must be in"),
        ({"visitor": "cookie"}, "visitor must be one of"),
        ({"bin_s": 7}, "bin_s must be one of"),
        ({"confidence": 1.0}, "confidence must be in"),
        ({"exclude": ("(",)}, "exclude must be regular expressions"),
        ({"timezone": "Europe/Berlyn"}, "timezone must be a name"),
        ({"timezone": "../../etc/passwd"}, "timezone must be a name"),
    ],
)
def test_impossible_settings_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FitSettings(**change)


def test_other_files_are_refused(tmp_path: Path) -> None:
    text = write_log(tmp_path / "readme.txt", ["Hello", "world"])
    with pytest.raises(ValueError, match="is no access log.*the format is unknown"):
        fit_log([text])
    empty = write_log(
        tmp_path / "a.log", lines(traffic(ConstantRate(0.01), exponential(5), 2, [1.0], 3600, 1), REQUESTS)
    )
    with pytest.raises(ValueError, match="no request is left"):
        fit_log([empty], FitSettings(exclude=(".",)))
    with pytest.raises(ValueError, match="all access logs or none: .* is none"):
        fit_log([empty, text])


def test_progress_is_the_share_of_the_bytes(rows: list[str], tmp_path: Path) -> None:
    shares: list[float] = []
    part = rows[: len(rows) // 2]
    read_log(
        [write_log(tmp_path / "a.log.gz", part * 3), write_log(tmp_path / "b.log", part)], FitSettings(), shares.append
    )
    assert len(shares) >= 2
    assert all(0 <= share <= 1 for share in shares)
    assert shares == sorted(shares)
    assert shares[-1] > 0.99


@pytest.mark.parametrize("n", [1, 2, 40])
def test_smallest_logs_give_a_document_with_warnings(tmp_path: Path, n: int) -> None:
    rows = [f'1.1.1.{i} - - [02/Mar/2026:00:00:0{i % 10} +0100] "GET / HTTP/1.1" 200 5' for i in range(n)]
    document = fit_log([write_log(tmp_path / "a.log", rows)])
    assert document["source"]["requests"] == n
    assert document["think_times"]["best"] is None
    assert any("a fit needs" in warning for warning in document["warnings"])


def log_of(path: Path, n: int, days: float) -> Path:
    """Write a log of n lines, two requests a visitor: as many visitors as a busy site has."""
    rng = np.random.default_rng(9)
    minutes = np.sort(rng.uniform(0, days * 1440, n)).astype(np.int64)
    with path.open("w") as stream:
        for i, minute in enumerate(minutes.tolist()):
            when = f"{2 + minute // 1440:02d}/Mar/2026:{minute % 1440 // 60:02d}:{minute % 60:02d}:{i % 60:02d} +0100"
            who, what = i // 2, i % 5000
            stream.write(
                f'10.{who >> 16 & 255}.{who >> 8 & 255}.{who & 255} - - [{when}] "GET /page/x{what}y?q={i} HTTP/1.1" '
                f'200 512 "https://www.example.com/a/page/that/led/here" "Mozilla/5.0 (X11; Linux x86_64) {who % 97}"\n'
            )
    return path


MEASURED = """
import re, sys, time
from pathlib import Path
from locust_realism.fit.arrival_rates import arrivals_of
from locust_realism.fit.fitting import fit_log
began = time.process_time()
document = fit_log([Path(sys.argv[1])])
# not ru_maxrss, in which a process inherits what its parent had
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(document["source"]["requests"], peak, time.process_time() - began)
"""


def measured(path: Path) -> tuple[int, float]:
    """Return the requests read in a separate process, and its peak memory in MB."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, path], capture_output=True, text=True, timeout=1200, check=True
    )
    rows, kilobytes, seconds = done.stdout.split()
    print(
        f"{path.stat().st_size / 1e6:.0f} MB, {rows} lines: {int(kilobytes) / 1e3:.0f} MB, {float(seconds):.1f} s CPU"
    )
    return int(rows), int(kilobytes) / 1e3


def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    rows, short = measured(log_of(tmp_path / "short.log", 40_000, 1.0))
    assert rows == 40_000
    rows, long = measured(log_of(tmp_path / "long.log", 110_000, 2.75))
    assert rows == 110_000
    assert long < 200
    assert long < short + 9  # the added lines are 12 MB of text, and several times that as objects


@pytest.mark.nightly
def test_five_million_lines_in_bounded_memory(tmp_path: Path) -> None:
    rows, memory = measured(log_of(tmp_path / "access.log", 5_000_000, 20.0))
    assert rows == 5_000_000
    assert memory < 200
