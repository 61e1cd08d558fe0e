"""Rate profiles: integral and inverse of every profile agree with its rate."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from locust_realism.workload.rates.csv_file import rate_from_csv
from locust_realism.workload.rates.shapes import (
    ConstantRate,
    PiecewiseLinearRate,
    RateProfile,
    SineRate,
    StepRate,
    SumRate,
    rate_profile_from_dict,
)

rates = st.floats(0.001, 1000)
seconds = st.floats(0.1, 1e5)


@st.composite
def knots(draw: st.DrawFn, least: int) -> tuple[tuple[float, float], ...]:
    n = draw(st.integers(least, 6))
    times = np.cumsum([draw(st.floats(-50, 50)), *(draw(seconds) for _ in range(n - 1))])
    return tuple((float(t), draw(rates)) for t in times)


@st.composite
def sines(draw: st.DrawFn) -> SineRate:
    low = draw(rates)
    return SineRate(low, low + draw(st.floats(0, 1000)), draw(seconds), draw(st.floats(-1e5, 1e5)))


simple = st.one_of(
    rates.map(ConstantRate),
    sines(),
    st.builds(PiecewiseLinearRate, knots(2), st.booleans()),
    st.builds(StepRate, knots(1)),
    st.builds(lambda steps, more: StepRate(steps, end=steps[-1][0] + more, repeat=True), knots(1), seconds),
)
profiles = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.builds(lambda p, f: p.scale(f), inner, st.floats(0.01, 100)),
        st.builds(lambda p, f: p.compressed(f), inner, st.floats(0.01, 100)),
        st.builds(lambda p, s: p.shifted(s), inner, st.floats(0, 1e5)),
        st.builds(lambda p, q: p + q, inner, inner),
    ),
    max_leaves=3,
)


@settings(max_examples=150, deadline=None)
@given(profiles, st.lists(st.floats(0, 1e6), min_size=1, max_size=20))
def test_inverse_undoes_cumulative(profile: RateProfile, times: list[float]) -> None:
    t = np.array(times)
    u = profile.cumulative(t)
    # An error of some ulp in Lambda is an error of that over lambda in time; a shift adds the rounding of its origin.
    scale = np.abs(u) + np.abs(profile.rate(t)) * (t + 2e5) + 1
    back = profile.inverse(np.maximum(u, 0))
    assert np.all(np.abs(profile.cumulative(back) - u) <= 1e-11 * scale)
    lowest = np.minimum(profile.rate(back), profile.rate(t))
    assert np.all(np.abs(back - t) <= 1e-9 * (scale / lowest + t))


@settings(max_examples=100, deadline=None)
@given(profiles, st.lists(st.floats(0, 1e6), min_size=2, max_size=20))
def test_cumulative_and_inverse_never_decrease(profile: RateProfile, times: list[float]) -> None:
    t = np.sort(times)
    u = profile.cumulative(t)
    slack = 1e-11 * (np.abs(u).max() + np.abs(profile.cumulative(2e5 + t)).max() + 1)
    assert np.all(np.diff(u) >= -slack)
    back = profile.inverse(np.sort(np.maximum(u, 0)))
    assert np.all(np.diff(back) >= -1e-9 * (1 + 2e5 + t.max()))


@settings(max_examples=100, deadline=None)
@given(profiles)
def test_a_profile_survives_json(profile: RateProfile) -> None:
    assert rate_profile_from_dict(json.loads(json.dumps(profile.to_dict()))) == profile


EXAMPLES: list[RateProfile] = [
    ConstantRate(3),
    SineRate(1, 9, 40, peak_at=7),
    SineRate(0, 9, 40, phase=2.0),
    PiecewiseLinearRate(((-5, 4), (3, 0), (11, 6), (20, 2))),
    PiecewiseLinearRate(((5, 4), (9, 0), (21, 6)), repeat=True),
    StepRate(((2, 4), (9, 0), (21, 6))),
    StepRate(((2, 4), (9, 1)), end=30),
    StepRate(((2, 4), (9, 1)), end=30, repeat=True),
    SineRate(1, 9, 40).compressed(3).scale(0.5).shifted(5) + ConstantRate(2) + StepRate(((1, 2), (4, 0))),
]


@pytest.mark.parametrize("profile", EXAMPLES, ids=repr)
def test_cumulative_is_the_integral_of_rate(profile: RateProfile) -> None:
    """The closed forms agree with a midpoint sum, up to its error from curvature and jumps."""
    for start, end in ((0.0, 50.0), (-30.0, 0.0)):
        edges = np.linspace(start, end, 200_001)
        width = edges[1] - edges[0]
        total = float(profile.rate((edges[1:] + edges[:-1]) / 2).sum() * width)
        assert profile.cumulative(end) - profile.cumulative(start) == pytest.approx(total, abs=40 * width)
    assert profile.cumulative(0) == pytest.approx(0, abs=1e-12)


def test_shapes_and_scalars() -> None:
    profile = SineRate(1, 3, 10)
    assert isinstance(profile.rate(3), float)
    assert profile.rate(np.zeros((2, 3))).shape == (2, 3)
    assert profile.inverse(np.ones((2, 3))).shape == (2, 3)
    assert profile.cumulative([]).shape == (0,)
    assert profile.inverse([]).shape == (0,)


def test_a_sine_has_its_extremes_where_set() -> None:
    by_peak = SineRate(2, 6, 100, peak_at=30)
    assert by_peak.rate([30, 80, 5, 55, 130]) == pytest.approx([6, 2, 4, 4, 6])
    # The quarter on each side of the peak: P/4 at the middle rate and the area P/(2 pi) of a quarter of a sine.
    assert by_peak.cumulative(30) - by_peak.cumulative(5) == pytest.approx(25 * 4 + 2 * 100 / (2 * math.pi))
    default = SineRate(2, 6, 100)
    assert default.peak_at == 25
    assert default.rate(0) == pytest.approx(4)
    by_phase = SineRate(2, 6, 100, phase=1.0)
    assert by_phase.rate(7) == pytest.approx(4 + 2 * math.sin(2 * math.pi * 7 / 100 + 1))


def test_sine_inverse_is_exact_after_many_periods_and_at_a_trough_of_zero() -> None:
    profile = SineRate(0, 10, 86400, peak_at=43200)
    t = np.linspace(0, 86400 * 400, 10_001)
    u = profile.cumulative(t)
    assert np.all(np.abs(profile.cumulative(profile.inverse(u)) - u) <= 4 * np.spacing(u.max()))


def test_the_inverse_of_a_zero_rate_is_infinite() -> None:
    assert ConstantRate(0).inverse([0, 1]).tolist() == [0, math.inf]
    assert SineRate(0, 0, 5).inverse([0, 1]).tolist() == [0, math.inf]
    assert StepRate(((0, 2), (10, 0))).inverse([20, 20.1]).tolist() == [10, math.inf]
    assert StepRate(((0, 2),), end=10).inverse(21) == math.inf
    assert PiecewiseLinearRate(((0, 2), (10, 0))).inverse([10, 10.1]).tolist() == [10, math.inf]
    assert StepRate(((0, 0),), end=1, repeat=True).inverse(1) == math.inf
    ending = StepRate(((0, 10),), end=1) + StepRate(((5, 0), (6, 3)), end=7)
    assert ending.inverse([5, 12]) == pytest.approx([0.5, 6 + 2 / 3])
    assert ending.inverse(13.5) == math.inf
    assert (0 * ConstantRate(3)).inverse(1) == math.inf


def test_a_pause_is_skipped() -> None:
    profile = StepRate(((0, 1), (10, 0), (100, 1)))
    assert profile.inverse([9.5, 10, 10.5]).tolist() == [9.5, 10, 100.5]


def test_profiles_print_themselves_readably() -> None:
    assert repr(StepRate(((0, 1), (60, 2)), end=90)) == "StepRate(((0.0, 1.0), (60.0, 2.0)), end=90.0)"
    minutes = PiecewiseLinearRate(tuple((60.0 * n, 1.0) for n in range(1441)), repeat=True)
    assert repr(minutes) == "PiecewiseLinearRate(1441 points from 0.0 to 86400.0 s, repeat=True)"
    assert repr(ConstantRate(1) / 2) == "ScaledRate(profile=ConstantRate(value=1.0), factor=0.5)"


def test_compression_keeps_rates_and_shortens_time() -> None:
    hour = SineRate(1, 9, 86400, peak_at=43200).compressed(24)
    assert hour.rate(1800) == pytest.approx(9)
    assert hour.cumulative(3600) == pytest.approx(5 * 3600)


def test_sums_are_flat_and_work_with_the_builtin_sum() -> None:
    total = sum([ConstantRate(1), ConstantRate(2), ConstantRate(4)])
    assert isinstance(total, SumRate)
    assert len(total.parts) == 3
    assert total.rate(0) == 7
    assert (ConstantRate(4) / 8).rate(0) == 0.5


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ConstantRate(-1), "value must be >= 0, not -1"),
        (lambda: ConstantRate(math.nan), "value must be a finite number, not nan"),
        (lambda: SineRate(5, 1, 10), "max_rate must be >= min_rate = 5.0, not 1.0"),
        (lambda: SineRate(1, 2, 0), "period must be > 0, not 0.0"),
        (lambda: SineRate(1, 2, 10, peak_at=1, phase=1), "cannot both be given"),
        (lambda: PiecewiseLinearRate(((0, 1),)), "points must have at least 2"),
        (lambda: PiecewiseLinearRate(((0, 1), (0, 2))), r"points\[1\] time must be > "),
        (lambda: StepRate(((0, 1), (5, -2))), r"steps\[1\] rate must be >= 0, not -2"),
        (lambda: StepRate(((0, 1),), repeat=True), "repeat needs end"),
        (lambda: StepRate(((0, 1),), end=0), "end must be > "),
        (lambda: ConstantRate(1).scale(-1), "factor must be >= 0, not -1"),
        (lambda: ConstantRate(1).compressed(0), "factor must be > 0, not 0"),
        (lambda: ConstantRate(1).inverse(-1), "u must be >= 0, not -1"),
        (lambda: ConstantRate(1).inverse(math.nan), "u must be >= 0, not nan"),
        (lambda: rate_profile_from_dict({"kind": "triangle"}), "kind must be one of"),
        (lambda: rate_profile_from_dict({"kind": "constant", "speed": 1}), "does not take these settings"),
    ],
)
def test_bad_settings_are_refused_with_name_value_and_bound(build: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()  # type: ignore[operator]


def test_csv_by_name_time_of_day_and_separator(tmp_path: Path) -> None:
    path = tmp_path / "day.csv"
    path.write_text("# a day\nhost;rate;time\nx;1;00:00\nx;5.5;06:30\n\nx;1;24:00:00\n")
    profile = rate_from_csv(path, repeat=True)
    assert profile == PiecewiseLinearRate(((0, 1), (23400, 5.5), (86400, 1)), repeat=True)
    assert rate_from_csv(path, interpolation="step", repeat=True) == StepRate(((0, 1), (23400, 5.5)), 86400, True)


def test_csv_without_heading_and_with_an_origin(tmp_path: Path) -> None:
    path = tmp_path / "plain.csv"
    path.write_text("100,1\n200,3\n")
    assert rate_from_csv(path, origin=100) == PiecewiseLinearRate(((0, 1), (100, 3)))
    assert rate_from_csv(path, interpolation="step") == StepRate(((100, 1), (200, 3)))


def test_csv_counts_bad_rows_and_shows_the_first(tmp_path: Path) -> None:
    path = tmp_path / "bad.csv"
    path.write_text("time,rate\n0,1\n5,-1\n4,x\n10\n3,2\n2,2\n9:61,4\n")
    with pytest.raises(ValueError) as error:
        rate_from_csv(path)
    assert "5 bad of 7 rows, max_bad_rows is 0: line 3: rate must be >= 0, not -1.0; line 4:" in str(error.value)
    assert str(error.value).endswith("; ...")
    assert rate_from_csv(path, max_bad_rows=5) == PiecewiseLinearRate(((0, 1), (3, 2)))


@pytest.mark.parametrize(
    ("text", "message"),
    [("time,rate\n0,1\n", "at least 2 good rows"), ("", "at least 2 good rows"), ("5\n6\n", "2 columns")],
)
def test_a_csv_without_a_profile_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "short.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        rate_from_csv(path)


def test_an_unknown_interpolation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="interpolation must be"):
        rate_from_csv(tmp_path / "x.csv", interpolation="cubic")  # type: ignore[arg-type]
