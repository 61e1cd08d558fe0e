"""The flags of a run become the settings of its analysis."""

from types import SimpleNamespace

from locust_realism.analysis.settings import AnalysisSettings, VerdictBounds
from locust_realism.runtime.options import OPTIONS
from locust_realism.runtime.plugin import LIVE_USER_ROWS, analysis_settings


def test_flags_that_are_not_given_leave_the_defaults():
    defaults = SimpleNamespace(**{option.dest: option.default for option in OPTIONS})
    live = AnalysisSettings(max_user_rows=LIVE_USER_ROWS)
    assert analysis_settings(defaults) == analysis_settings(SimpleNamespace()) == live


def test_each_flag_reaches_its_setting():
    given = SimpleNamespace(
        realism_warmup=30.0,
        realism_cooldown=5.0,
        realism_warmup_requests=2500,
        realism_sample_requests=10_000,
        realism_mser5=True,
        realism_percentile_rule="locust",
        realism_bounds="cov_red=0.3,starts_min=50",
    )
    assert analysis_settings(given) == AnalysisSettings(
        skip_s=30.0,
        cooldown_s=5.0,
        skip_requests=2500,
        sample_requests=10_000,
        mser5=True,
        max_user_rows=LIVE_USER_ROWS,
        percentile_rule="locust",
        bounds=VerdictBounds(cov_red=0.3, starts_min=50),
    )
