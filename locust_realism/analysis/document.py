"""Types of the JSON documents: the summary, and what the web API has beside it; docs/json.md describes every key.

A figure that cannot be computed is None. Keys that end in ``_ms`` are milliseconds, ``_s`` seconds, ``_bytes`` bytes,
``_us`` microseconds since the epoch; rates are per second; shares and quantiles are fractions of 1.
"""

# Strings in place of annotations would hide NotRequired from __required_keys__: no "from __future__" here.
from typing import Final, Literal, NotRequired, TypedDict, final

Status = Literal["green", "amber", "red", "not enough data"]
"""Status of a check, a cause, a finding or the verdict."""
GREEN: Final = "green"
AMBER: Final = "amber"
RED: Final = "red"
NO_DATA: Final = "not enough data"
SEVERITY: dict[Status, int] = {GREEN: 0, NO_DATA: 1, AMBER: 2, RED: 3}
"""Statuses in ascending order of severity."""

Percentile4 = Literal["p50_ms", "p90_ms", "p95_ms", "p99_ms"]
Percentile5 = Literal["p50_ms", "p90_ms", "p95_ms", "p99_ms", "p999_ms"]
PERCENTILES_4: tuple[Percentile4, ...] = ("p50_ms", "p90_ms", "p95_ms", "p99_ms")
"""Percentiles of every table of times, as keys."""
PERCENTILES_5: tuple[Percentile5, ...] = (*PERCENTILES_4, "p999_ms")
"""Percentiles of the tables of response times, as keys."""


class FourPercentiles(TypedDict):
    """Percentiles in milliseconds; None without values."""

    p50_ms: float | None
    p90_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


class FivePercentiles(FourPercentiles):
    """Percentiles in milliseconds, p99.9 included."""

    p999_ms: float | None


class NamedRow(TypedDict):
    """Name and HTTP method of the requests of a row; ``Aggregated`` without a method stands for all of them."""

    label: str
    method: str


# Source and window


class SourceCounts(TypedDict):
    """Counts of the launches that a document is made of."""

    rows: int
    names: int
    failures: int


class SourceDetails(TypedDict, total=False):
    """Origin of the launches: files, or the kind ``live run`` with the recorder's warnings and its balance in words."""

    files: list[str]
    kind: str
    warnings: list[str]
    balance: str


class Source(SourceCounts, SourceDetails):
    """Origin and counts of the launches."""

    workers: int


class Untrimmed(TypedDict):
    """Figures of every launch where the settings leave some out; ``n`` counts gaps, times in milliseconds."""

    n: int
    rate: float | None
    cov: float | None
    response_p50_ms: float | None
    response_p95_ms: float | None
    response_p99_ms: float | None


class Window(TypedDict):
    """Part of the run that is analysed, in rows and in seconds since ``origin_us``; an empty log has no times."""

    n: int
    rows_total: int
    sentence: str
    cut_start: NotRequired[int]
    cut_end: NotRequired[int]
    origin_us: NotRequired[int]
    skip_s: NotRequired[float]
    cooldown_s: NotRequired[float]
    skip_requests: NotRequired[int]
    mser5: NotRequired[bool]
    start_us: NotRequired[int]
    end_us: NotRequired[int]
    start_s: NotRequired[float]
    end_s: NotRequired[float]
    duration_s: NotRequired[float]
    untrimmed: NotRequired[Untrimmed]
    judged: NotRequired[int]
    judged_sentence: NotRequired[str]


class Newest(TypedDict):
    """Launches in memory of a run that is longer than memory holds, seconds since the start of the run."""

    n: int
    start_s: float | None
    end_s: float | None


# Tables by name


class GapRow(FourPercentiles):
    """Times between launches: ``n`` gaps, launches per second, milliseconds."""

    launches: int
    n: int
    rate: float | None
    median_ms: float | None
    mean_ms: float | None
    sdev_ms: float | None
    cov: float | None
    min_ms: float | None
    max_ms: float | None


class LaunchRow(GapRow, NamedRow):
    """Times between the launches of one name: ``n`` gaps, launches per second, milliseconds."""


Interval = list[float]
"""Lower and upper limit of a confidence interval."""


class ResponseRow(FivePercentiles, NamedRow):
    """Response times of one name in milliseconds, with intervals of the percentiles; requests per second."""

    n: int
    failures: int
    rate: float | None
    mean_ms: float | None
    sdev_ms: float | None
    cov: float | None
    min_ms: float | None
    max_ms: float | None
    p50_interval_ms: Interval | None
    p90_interval_ms: Interval | None
    p95_interval_ms: Interval | None
    p99_interval_ms: Interval | None
    p999_interval_ms: Interval | None
    effective_n: float | None
    interval_note: str | None


class BytesRow(NamedRow):
    """Sizes of the responses of one name in bytes."""

    n: int
    total_bytes: int
    bytes_per_s: float | None
    mean_bytes: float | None
    sdev_bytes: float | None
    cov: float | None
    p50_bytes: float | None
    p90_bytes: float | None
    p95_bytes: float | None
    p99_bytes: float | None
    p999_bytes: float | None
    min_bytes: float | None
    max_bytes: float | None


# Launch pattern


class GroupRow(TypedDict):
    """Times between the launches of the first ``users`` users together: ``n`` gaps, milliseconds."""

    users: int
    n: int
    rate: float | None
    mean_ms: float | None
    sdev_ms: float | None
    cov: float | None


class DispersionRow(TypedDict):
    """Index of dispersion of the counts in windows of ``window_s`` seconds, with the bands of Poisson and the model."""

    window_s: float
    windows: int
    independent_windows: float
    mean: float
    idc: float
    poisson_low: float
    poisson_high: float
    model: float
    model_low: float
    model_high: float


class StallsRow(TypedDict):
    """Repeated pauses: their number, mean length and mean distance in seconds; ``regular`` where they have a period."""

    number: int
    mean_s: float
    period_s: float
    regular: bool


class Pattern(TypedDict):
    """Single figures of the launch pattern; shares are fractions of 1."""

    raw_cov: float | None
    cov: float | None
    cov_kind: Literal["planned", "windowed"]
    clock_tick_us: int
    requests_per_task: float
    autocorrelation: list[float]
    distance: float | None
    short_gaps: float | None
    short_gap_s: float | None
    stalls: StallsRow | None
    server_stalls: StallsRow | None
    retry_share: float | None
    period_s: float | None
    longest_gap_s: float | None
    longest_gap_at_s: float | None
    longest_share: float | None
    closed: bool
    users: int
    mean_concurrent_users: float | None
    response_share: float | None
    think_mean_s: float | None
    round_trip_s: float | None
    user_cov: float | None
    lateness_p50_ms: float | None
    lateness_p99_ms: float | None


class WorkerRow(TypedDict):
    """Launches of one worker on its own clock: ``n`` gaps, launches per second, bunches in milliseconds."""

    worker: int
    n: int
    rate: float | None
    cov: float | None
    bunch_ms: float | None


# Steady state


class Half(FourPercentiles):
    """Response times of a part of the run in milliseconds and their CoV, ``n`` launches, launches per second."""

    n: int
    rate: float | None
    mean_ms: float | None
    response_cov: float | None


class Segment(FourPercentiles):
    """Response times in one of 20 equal pieces of time in milliseconds, ``n`` launches."""

    start_s: float
    duration_s: float
    n: int
    mean_ms: float | None


class SamplePiece(Half):
    """Response times of 20,000 consecutive launches, from ``first_row`` on."""

    first_row: int


class Change(TypedDict):
    """Relative change from the first half to the second, with its standard error from ``segments`` in a half."""

    change: float | None
    standard_error: float | None
    segments: int


class Changes(TypedDict):
    """Changes of the response times and of the launch rate; empty where there were too few requests."""

    p50: NotRequired[Change]
    p95: NotRequired[Change]
    mean: NotRequired[Change]
    rate: NotRequired[Change]


class SampleWindow(FourPercentiles):
    """Percentiles of the last ``samples`` requests in milliseconds, as JMeter's dashboard shows them."""

    samples: int


class Stability(TypedDict):
    """Halves and segments of the run, and the changes between the halves."""

    enough: bool
    halves: list[Half]
    segments: list[Segment]
    changes: Changes


class SteadyState(Stability):
    """Stability of the run, the warm-up that MSER-5 finds, and the figures of windows of samples."""

    mser5_rows: int
    mser5_s: float | None
    mser5_share: float | None
    jmeter_window: SampleWindow | None
    pieces: list[SamplePiece]


# Stages and capacity


class StageFigures(FivePercentiles):
    """Response times of a stage or a level in milliseconds, their CoV, requests per second, CoV of the gaps."""

    duration_s: float
    n: int
    failures: int
    rate: float | None
    mean_ms: float | None
    response_cov: float | None
    cov: float | None


class Span(TypedDict):
    """Stage of a plan: seconds since the start of the run, and what is held (rates per second)."""

    start_s: float
    end_s: float
    users: NotRequired[int]
    rate: NotRequired[float]
    arrival_rate: NotRequired[float]
    think_time_s: NotRequired[float]


class StageRow(StageFigures):
    """Figures of one stage: seconds since the start of the run, and what was held (rates per second)."""

    kind: Literal["stage"]
    start_s: float
    end_s: float
    planned_rate: float | None
    users: NotRequired[int]
    arrival_rate: NotRequired[float]
    think_time_s: NotRequired[float]


class LevelRow(StageFigures):
    """Figures at ``users_low`` to ``users_high`` concurrent users, ``users`` on average."""

    kind: Literal["level"]
    users: float
    users_low: int
    users_high: int
    response_share: float | None


class CapacityLevel(FourPercentiles):
    """Throughput per second and response times in milliseconds at one level of concurrency, with Little's law."""

    users: float
    fewest: int
    most: int
    n: int
    duration_s: float
    rate: float
    rate_error: float
    failures: int
    mean_ms: float | None
    response_cov: float | None
    think_ms: float | None
    feedback: float | None
    little_users: float | None
    little_ratio: float | None


class UslCurve(TypedDict):
    """Throughput per second by the scalability law, with its 95 % band; lists of equal length."""

    users: list[float]
    rate: list[float]
    low: list[float]
    high: list[float]


class Usl(TypedDict):
    """Universal scalability law X(N) = gamma N / (1 + alpha (N - 1) + beta N (N - 1)), gamma per second."""

    alpha: float
    beta: float
    gamma: float
    peak_users: float | None
    peak_beyond_measured: bool
    curve: UslCurve


class KneeRow(TypedDict):
    """Number of users from which throughput levels off, with its 95 % interval; None outside the measured levels."""

    users: float | None
    low: float | None
    high: float | None
    rate_max: float | None
    cycle_ms: float | None
    where: str


class TargetRow(TypedDict):
    """Number of users up to which a target holds, with its 95 % interval; ``values`` and ``errors`` one a level."""

    target: str
    users: float | None
    low: float | None
    high: float | None
    largest_measured: float | None
    status: str
    note: str | None
    values: list[float | None]
    errors: list[float | None]


class Capacity(TypedDict):
    """Throughput and response times against concurrent users, the scalability law, the knee and the targets."""

    levels: list[CapacityLevel]
    usl: Usl | None
    knee: KneeRow | None
    targets: list[TargetRow]
    warnings: list[str]
    explanation: str


# Verdict


class Cause(TypedDict):
    """Root cause of amber or red checks: its own ``check`` and, as ``consequences``, those that follow from it."""

    name: str
    distortion: str | None
    check: int
    status: Status
    explanation: str
    evidence: str
    remedy: str
    consequences: list[int]


class Check(TypedDict):
    """Result of one check in words and figures; ``bound`` is a number or a range [low, high]."""

    id: int
    name: str
    status: Status
    value: float | None
    bound: float | list[float] | None
    explanation: str
    follows_from: int | None
    seen: str
    meaning: str
    advice: str


class Verdict(TypedDict):
    """Verdict on the launch pattern, its causes and its checks, root causes first; ``missing`` are figures in words."""

    overall: Status
    sentence: str
    missing: list[str]
    generator: Status
    feedback: Status
    causes: list[Cause]
    checks: list[Check]


class NameVerdict(NamedRow):
    """Check 1 of the launches of one name: ``n`` gaps."""

    n: int
    cov: float | None
    status: Status


# Charts


class OverTime(TypedDict):
    """Curves over the run in equal bins, seconds and milliseconds; ``width_s`` and ``end_s`` hold one number each."""

    t_s: list[float]
    rate: list[float]
    failures: list[float]
    cov: list[float | None]
    p50_ms: list[float | None]
    p95_ms: list[float | None]
    p99_ms: list[float | None]
    users: list[float | None]
    width_s: list[int]
    end_s: list[float]
    planned_rate: NotRequired[list[float]]


class CovOverTime(TypedDict):
    """CoV of the gaps in steps of the single ``width_s``, with the number of gaps in each."""

    t_s: list[float]
    n: list[int]
    cov: list[float | None]
    width_s: list[int]


class AsLocust(FourPercentiles, NamedRow):
    """Percentiles of one name in milliseconds as Locust's own table rounds them."""


class GapHistogram(TypedDict):
    """Histogram of the gaps between launches in milliseconds, beside the counts that exponential gaps would have."""

    n: int
    mean_ms: float | None
    edges_ms: list[float]
    counts: list[int]
    expected: list[float]
    beyond: int
    beyond_expected: float


class NamedGapHistogram(GapHistogram, NamedRow):
    """Histogram of the gaps between the launches of one name."""


class ResponseCurve(TypedDict):
    """Percentile curve and density of response times; ``tail`` holds 1 / (1 - q)."""

    n: int
    tail: list[float]
    tail_ms: list[float]
    density_ms: list[float]
    density: list[float]


class NamedResponseCurve(ResponseCurve, NamedRow):
    """Percentile curve and density of the response times of one name."""


class Charts(TypedDict):
    """Curves behind the charts; lists of names begin with all of them."""

    origin_us: int | None
    over_time: OverTime
    cov_over_time: CovOverTime
    as_locust: list[AsLocust]
    interlaunch: list[NamedGapHistogram]
    response: list[NamedResponseCurve]
    names_left_out: int


# The summary


class ThresholdRow(TypedDict):
    """Result of one threshold in the unit of the summary; None where there is no figure."""

    threshold: str
    failed: bool
    value: float | str | None
    line: str


class Summary(TypedDict):
    """Everything that is known about a run."""

    schema_version: int
    source: Source
    window: Window
    rule: str
    launches: list[LaunchRow]
    response_times: list[ResponseRow]
    bytes: list[BytesRow]
    groups: list[GroupRow]
    dispersion: list[DispersionRow]
    pattern: Pattern
    workers: list[WorkerRow]
    steady_state: SteadyState
    stages: list[StageRow | LevelRow]
    capacity: Capacity | None
    verdict: Verdict
    names: list[NameVerdict]
    charts: NotRequired[Charts]
    thresholds: NotRequired[list[ThresholdRow]]
    newest: NotRequired[Newest]
    tables_age_s: NotRequired[float | None]


class RecordedTables(TypedDict):
    """Tables of every launch of a recording that is longer than memory holds."""

    window: Window
    source: SourceCounts
    launches: list[LaunchRow]
    response_times: list[ResponseRow]
    bytes: list[BytesRow]
    names_left_out: int


# The web API


@final
class LiveSummary(Summary):
    """Summary of a running test with its age in seconds and Locust's state."""

    state: str
    age_s: float | None


@final
class PendingSummary(TypedDict):
    """Answer before the first figures of a run: Locust's state only."""

    state: str
    age_s: None


class StatusDocument(TypedDict):
    """State of the run and of the recorder: seconds since the start, users, rows recorded and lost."""

    state: str
    run_id: int
    elapsed_s: float
    users: int
    workers: int
    rows: int
    lost: int
    balance: str
    errors: list[str]
    warnings: list[str]
    version: str


class PopulationModel(TypedDict):
    """Kind of the population and its parameters in words."""

    name: str
    text: str


class PopulationSeries(TypedDict):
    """Users, arrivals and departures per second over time, beside the expected curve and its 95 % band."""

    t_s: list[float]
    users: list[float]
    arrivals: list[float]
    departures: list[float]
    planned_arrivals: NotRequired[list[float]]
    expected: NotRequired[list[float]]
    low: NotRequired[list[float]]
    high: NotRequired[list[float]]


class SessionFigures(TypedDict):
    """Durations of the sessions that have ended, in seconds, and their histogram; ``n`` alone before the first."""

    n: int
    edges_s: list[float]
    counts: list[float]
    mean_s: NotRequired[float | None]
    sdev_s: NotRequired[float | None]
    cov: NotRequired[float | None]
    p50_s: NotRequired[float | None]
    p90_s: NotRequired[float | None]
    p95_s: NotRequired[float | None]
    p99_s: NotRequired[float | None]
    min_s: NotRequired[float | None]
    max_s: NotRequired[float | None]


class ArrivalLateness(TypedDict):
    """Lateness of ``n`` arrivals in milliseconds after their planned times; ``n`` alone without any."""

    n: int
    p50_ms: NotRequired[float]
    p95_ms: NotRequired[float]
    p99_ms: NotRequired[float]
    max_ms: NotRequired[float]


class ClassCounts(TypedDict):
    """Counts of the arrivals and sessions of one user class; ``departures`` by how the sessions ended."""

    active: int
    entered: int
    arrivals: int
    balked: int
    missed: int
    cut_short: int
    moved_anew: int
    failed: int
    lost: int
    departures: dict[str, int]


class ProfileAhead(TypedDict):
    """Planned rate from now on, in ``unit``, at seconds since the start of the run."""

    t_s: list[float]
    rate: list[float]
    now_s: float
    unit: str


class PopulationDocument(TypedDict):
    """Population over time against its model; without a population only ``model`` (None) and ``profile``."""

    model: PopulationModel | None
    profile: NotRequired[ProfileAhead | None]
    series: NotRequired[PopulationSeries]
    sessions: NotRequired[SessionFigures]
    late: NotRequired[int]
    lateness: NotRequired[ArrivalLateness]
    tasks_per_session: NotRequired[float | None]
    classes: NotRequired[dict[str, ClassCounts]]
    balked: NotRequired[int]
    missed: NotRequired[int]
    cut_short: NotRequired[int]
    lost: NotRequired[int]
    moved_anew: NotRequired[int]
    failed: NotRequired[int]
    entered: NotRequired[int]
    arrivals: NotRequired[int]
    departures: NotRequired[dict[str, int]]


HealthShare = Literal["run_wait", "steal", "throttled", "pressure", "blocked", "stopped"]
"""Share of the time in a process's health that a system may not measure."""
HEALTH_SHARES: tuple[HealthShare, ...] = ("run_wait", "steal", "throttled", "pressure", "blocked", "stopped")
"""These shares, as keys."""


class GeneratorRow(TypedDict):
    """Health of one process in the last 30 s: shares, bytes, ms; a figure that its system lacks is left out."""

    id: str
    state: str
    role: str
    rows: int | None
    lost: NotRequired[int]
    users: NotRequired[int | None]
    cpu: NotRequired[float]
    machine_cpu: NotRequired[float]
    memory_bytes: NotRequired[int]
    lag_p99_ms: NotRequired[float]
    run_wait: NotRequired[float]
    steal: NotRequired[float]
    throttled: NotRequired[float]
    pressure: NotRequired[float]
    blocked: NotRequired[float]
    stopped: NotRequired[float]
    wake_p90_ms: NotRequired[float]
    lateness_p50_ms: NotRequired[float]
    lateness_p95_ms: NotRequired[float]
    lateness_p99_ms: NotRequired[float]
    clock_offset_ms: NotRequired[float]
    clock_uncertainty_ms: NotRequired[float]


class GeneratorCurve(TypedDict):
    """CPU (share of a core) and lag of the event loop (ms) of one process over the run; None where not measured."""

    id: str
    cpu: list[float | None]
    lag_p99_ms: list[float | None]


class GeneratorSeries(TypedDict):
    """Curves of all processes at seconds since the start of the run."""

    t_s: list[float]
    workers: list[GeneratorCurve]


class TargetUse(TypedDict):
    """Use of this machine by the system under test: share of a core, bytes per second, busy share of a disk."""

    name: str
    cpu: float
    read_bytes_s: NotRequired[float]
    write_bytes_s: NotRequired[float]
    disk_busy: NotRequired[float]


GeneratorFigure = Literal[
    "cpu", "machine_cpu", "lag_p99_ms", "lateness_p99_ms", "run_wait", "steal", "throttled", "stopped", "blocked",
    "lost", "clock_uncertainty_ms", "disk_busy",
]  # fmt: skip
"""Figure of the generator's health that is graded."""


class GeneratorBounds(TypedDict):
    """Bounds [amber, red] of the generator's figures, in their units; None where a figure never turns that colour."""

    cpu: list[float | None]
    machine_cpu: list[float | None]
    lag_p99_ms: list[float | None]
    lateness_p99_ms: list[float | None]
    run_wait: list[float | None]
    steal: list[float | None]
    throttled: list[float | None]
    stopped: list[float | None]
    blocked: list[float | None]
    lost: list[float | None]
    clock_uncertainty_ms: list[float | None]
    disk_busy: list[float | None]


class GeneratorFinding(TypedDict):
    """Sentence on the generator's health, with its status."""

    status: Status
    text: str


class GeneratorDocument(TypedDict):
    """Health of the load generator by process, with its age in seconds and Locust's state."""

    workers: list[GeneratorRow]
    target: TargetUse | None
    state: NotRequired[str]
    age_s: NotRequired[float]
    series: NotRequired[GeneratorSeries]
    bounds: NotRequired[GeneratorBounds]
    findings: NotRequired[list[GeneratorFinding]]


class Bundle(TypedDict):
    """Documents of all tabs, from which the report of a run is drawn."""

    summary: Summary | LiveSummary
    title: NotRequired[str]
    facts: NotRequired[list[list[str]]]
    status: NotRequired[StatusDocument]
    population: NotRequired[PopulationDocument]
    generator: NotRequired[GeneratorDocument]


# The comparison


class DifferenceRow(TypedDict):
    """Difference b - a of one figure with its limits; None for a limit that the data does not set."""

    a: float | None
    b: float | None
    difference: float | None
    low: float | None
    high: float | None
    ratio: float | None
    n_a: int
    n_b: int
    verdict: str


class NamedDifference(DifferenceRow, NamedRow):
    """Difference of the response times of one name in milliseconds."""

    figure: str


class LoadMatch(TypedDict):
    """Match of the loads of two sides; ``reasons`` is a sentence for each difference."""

    status: Literal["alike", "warning", "refused"]
    reasons: list[str]


class Candidate(TypedDict):
    """One side against the baseline: conclusion, match of the loads, and the differences."""

    name: str
    conclusion: str
    sentence: str
    alike: LoadMatch
    rows: list[NamedDifference]
    throughput: DifferenceRow
    failures: DifferenceRow


class ComparedRun(TypedDict):
    """Throughput per second, share of failures and launch pattern of one side."""

    name: str
    runs: int
    n: int
    rate: float | None
    failures: float
    cov: float | None
    verdict: list[Status]


class AgreementRow(TypedDict):
    """Values of one figure in repeated runs, their relative range and the p-value of their spread."""

    figure: str
    values: list[float]
    apart: float | None
    p_value: float | None
    agrees: bool | None


class Agreement(TypedDict):
    """Agreement of the repeated runs of one side."""

    name: str
    runs: int
    rows: list[AgreementRow]
    agrees: bool | None
    sentence: str


class SideLevel(TypedDict):
    """Figures of one side at a level of concurrency; the verdict and its limits are on p95 against the first side."""

    n: int
    rate: float
    failures: float
    p50_ms: float | None
    p95_ms: float | None
    verdict: NotRequired[str]
    low: NotRequired[float | None]
    high: NotRequired[float | None]


class ComparedLevel(TypedDict):
    """All sides at one level of concurrency, None for a side without launches at this level."""

    fewest: int
    most: int
    sides: list[SideLevel | None]


class SideThreshold(ThresholdRow):
    """Result of one threshold of one side."""

    name: str


class Comparison(TypedDict):
    """Differences of several sides from the first, the baseline."""

    baseline: str
    confidence: float
    tolerance: float
    rule: str
    candidates: list[Candidate]
    runs: list[ComparedRun]
    agreement: list[Agreement]
    levels: list[ComparedLevel]
    warnings: NotRequired[list[str]]
    thresholds: NotRequired[list[SideThreshold]]
