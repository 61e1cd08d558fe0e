"""Calibration of the verdict on real Locust runs, each compared with the arrival times that the server logged.

    python benchmarks/calibrate_runs.py [--runs-dir DIR] [--only PATTERN] [--list | --table | --again] [--python FILE]

The machine must be idle otherwise: the 126 sound runs take 40 minutes, the 120 distorted ones 35. Each run adds a
line of JSON to ``DIR/runs.jsonl``; a later call leaves out those that are there, so an interrupted one goes on where it
ended. It prints the tables of docs/verdict.md at the end; ``--table`` prints those of the present lines. ``--again``
judges the recordings of the finished runs once more, by the present code. ``--python`` runs Locust in another
environment, such as one with an older version of this package; server and truth are always of this.

**Truth.** The target of ``locust_realism.targets`` runs in a process of its own and logs the kernel's arrival time of
every request. Of these count the first ones of a task, from full spawn plus three mean waits of a pool, or from full
spawn where a plan makes the launches, to the stop request. The server is *in band* if the CoV of their gaps and their
index of dispersion at 0.1 s and 1 s are within the bounds of the verdict around the law of the workload. What the
verdict says is compared with the server's figures over the time that it judged.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import locust_realism
from locust_realism.analysis.settings import DEFAULT_BOUNDS, AnalysisSettings
from locust_realism.analysis.verdict.dispersion import poisson_band
from locust_realism.cli.analyze import analyze
from locust_realism.common import supervisor
from locust_realism.targets.arrival_log import read_arrivals
from locust_realism.workload.distributions.text import distribution_from_text

LOCUSTFILE = Path(__file__).with_name("runs") / "locustfile.py"
JUDGED_S = 9
"""Least seconds of a run after its warm-up."""
ENOUGH = 1000
"""Launches on which a verdict is given, and some more."""
WINDOWS_S = (0.1, 1.0)
PHASES = 8
"""Starts of the windows over which an index of dispersion is averaged."""
TRIP_S = 0.002
"""Response time of the server, about."""
GRACE_S = 3.0
IDLE_PERCENT = 10.0
QUICK = ("--servers", "1000", "--time", "answer=0.0005")
SLOWER = ("--servers", "1000", "--time", "answer=lognormal(0.005, cov=1)")
GOAL_RED, GOAL_AMBER, GOAL_OF, GOAL_RIGHT = 2, 8, 120, 0.95

_REGULAR = "too even|too regular|hardly vary"
RIGHT = {
    "constant think time": f"users that move in step|{_REGULAR}",
    "too few users": "^too few users or too regular ones",
    "blocked loop": "code that blocks the event loop",
    "busy machine": "machine busy with other programs",
    "stopped process": "process stopped from outside",
    "saturated server": "server that paces its users",
    "stalling server": "server that stalls",
    "one pause": "^a single pause",
    "sine without a plan": "not steady",
    "metronome": _REGULAR,
    "too few users for the plan": "^too few users for the planned launches",
    "retry storm": "^retries of failed requests",
}
"""Distortion to the pattern of the first cause that is right."""


@dataclass(frozen=True)
class Run:
    """One run: users, server and what is wrong with it; ``kind`` is a key of RIGHT, or of a sound run."""

    name: str
    kind: str
    wait: str
    users: int
    rate: float
    seconds: int
    settle: float = 0.0
    processes: int = 1
    client: str = "fast"
    task: str = "one"
    population: str = ""
    server: tuple[str, ...] = QUICK
    block: tuple[float, float] | None = None
    hold_once: tuple[float, float] | None = None
    metronome: float = 0.0
    shape: float = 0.0
    burn: int = 0
    stop: tuple[float, float] | None = None
    profile: str = ""
    think: str = ""
    session: tuple[float, float] = (0.0, 0.0)
    """Trips a second and memory in seconds of the number of users, for the index of dispersion."""
    cov_high: float = 1.0
    seed: int = field(default=1)

    @property
    def sound(self) -> bool:
        """True for a run without distortion."""
        return self.kind not in RIGHT


# Runs

Numbers = Iterator[int]


def pool(kind: str, wait: str, z: float, users: int, rate: float, **more: Any) -> Run:
    """Return a fixed pool with think times of mean ``z``; it is settled three of them after full spawn."""
    seconds = math.ceil(users / rate + 3 * z + more.pop("judged", JUDGED_S)) + 1
    return Run("", kind, wait, users, rate, seconds, settle=3 * z, think=wait, **more)


def enough_s(rate: float) -> int:
    """Return the seconds in which ``rate`` launches a second are enough for a verdict, 20 at most."""
    return min(max(math.ceil(ENOUGH / rate), JUDGED_S), 20)


def waits(z: float) -> tuple[str, str, str]:
    """Return three waits with the mean ``z``."""
    return f"exponential({z})", f"lognormal({z}, cov=1)", f"uniform(0, {2 * z})"


def sound_runs() -> Iterator[Run]:
    """Yield the sound runs: every kind of workload and wait, 20 to 1,000 users, 5 to 1,000 launches a second."""
    for client, users, z, rate, processes in (
        ("fast", 20, 0.2, 1, 1), ("fast", 20, 0.1, 20, 1), ("http", 20, 0.4, 20, 1), ("fast", 50, 0.5, 10, 1),
        ("http", 50, 0.5, 50, 1), ("fast", 100, 1, 10, 1), ("fast", 100, 1, 50, 1), ("fast", 100, 1, 100, 1),
        ("fast", 100, 0.25, 100, 1), ("http", 100, 1, 50, 2), ("fast", 100, 1, 50, 2), ("fast", 200, 1, 50, 1),
        ("http", 200, 1, 200, 1), ("fast", 200, 0.5, 100, 2), ("fast", 400, 1, 100, 1), ("fast", 500, 1, 500, 2),
        ("fast", 1000, 2, 200, 2), ("fast", 1000, 2, 1000, 1), ("fast", 1000, 1, 500, 2),
    ):  # fmt: skip
        for number, wait in enumerate(waits(z)):
            server = SLOWER if z >= 0.5 and (users // 50 + number) % 2 else QUICK
            yield pool("pool, one request", wait, z, users, rate, client=client, processes=processes, server=server,
                       judged=enough_s(users / z))  # fmt: skip
    yield pool("pool, one request", "exponential(4)", 4, 20, 20)
    for client, users, z, rate, processes in (
        ("fast", 100, 1, 50, 1), ("http", 60, 1, 60, 1), ("fast", 200, 1, 100, 2), ("fast", 30, 0.4, 30, 1),
    ):  # fmt: skip
        for wait in waits(z):
            yield pool("pool, four in a row", wait, z, users, rate, client=client, processes=processes, task="row",
                       judged=enough_s(users / z))  # fmt: skip
    for client, users, z, rate, processes in (
        ("fast", 30, 0.5, 30, 1), ("fast", 100, 1.5, 100, 1), ("fast", 100, 1.5, 50, 2), ("http", 50, 1, 50, 1),
    ):  # fmt: skip
        for wait in waits(z):
            yield pool("pool, ten in parallel", wait, z, users, rate, client=client, processes=processes,
                       task="parallel", judged=enough_s(users / z))  # fmt: skip
    for client, arrivals, stay, z, processes in (
        ("fast", 5, 20, 1, 1), ("http", 5, 20, 1, 1), ("fast", 50, 2, 0.5, 1), ("fast", 20, 5, 0.25, 1),
        ("fast", 1, 20, 0.2, 1), ("fast", 100, 3, 0.6, 2), ("fast", 10, 10, 1, 2), ("http", 20, 5, 1, 2),
        ("fast", 40, 2.5, 1, 1), ("fast", 25, 10, 1, 1),
    ):  # fmt: skip
        mean = f"Population(ConstantRate({arrivals}), session_duration=exponential({stay}), warm_up=2)"
        yield Run("", "population", f"exponential({z})", 1, 1, 4 + JUDGED_S, client=client, processes=processes,
                  population=mean, session=(1 / z, stay), cov_high=math.sqrt(1 + 2 / (arrivals * stay)))  # fmt: skip
    for client, people, away, stay, z, processes in (
        ("fast", 200, 5, 5, 1, 1), ("http", 200, 5, 5, 1, 1), ("fast", 100, 2, 4, 0.5, 1), ("fast", 400, 5, 5, 0.5, 2),
        ("fast", 50, 1, 4, 0.4, 1), ("fast", 600, 10, 5, 1, 1), ("fast", 1000, 10, 10, 1, 2), ("http", 150, 4, 2, 1, 2),
    ):  # fmt: skip
        text = f"FinitePopulation({people}, away=exponential({away}), session_duration=exponential({stay}), warm_up=2)"
        inside, memory = stay / (stay + away), 1 / (1 / stay + 1 / away)
        yield Run("", "finite population", f"exponential({z})", 1, 1, 4 + JUDGED_S, client=client,
                  processes=processes, population=text, session=((1 - inside) / z, memory),
                  cov_high=math.sqrt(1 + 2 * (1 - inside) / (people * inside)))  # fmt: skip
    planned = (
        ("fast", 5, 1), ("fast", 20, 1), ("fast", 50, 1), ("fast", 100, 1), ("http", 100, 1), ("fast", 200, 1),
        ("http", 200, 2), ("fast", 400, 1), ("fast", 400, 2), ("fast", 1000, 2),
    )  # fmt: skip
    for client, rate, processes in planned:
        common: dict[str, Any] = {"client": client, "processes": processes}
        seconds = 3 + enough_s(rate)
        yield Run("", "open arrivals", "exponential(1)", 1, 1, seconds,
                  population=f"open_arrivals(ConstantRate({rate}))", **common)  # fmt: skip
        users = max(10, rate // 8)
        yield Run("", "paced", f"paced(ConstantRate({rate}))", users, users, seconds, **common)
    for low, high, period, processes in ((20, 180, 4, 1), (50, 350, 3, 1), (20, 380, 5, 2)):
        profile = f"SineRate({low}, {high}, period={period})"
        common = {"processes": processes, "profile": profile}
        yield Run("", "sine, planned", f"paced({profile})", 60, 60, 4 + JUDGED_S, **common)
        yield Run("", "sine, planned", "exponential(1)", 1, 1, 4 + JUDGED_S, population=f"open_arrivals({profile})",
                  **common)  # fmt: skip


def distorted_runs() -> Iterator[Run]:
    """Yield the distorted runs, ten and more of each kind."""
    pools = ((50, 0.5, 50, 1), (100, 1, 100, 1), (100, 1, 50, 1), (200, 1, 100, 2), (100, 0.5, 100, 1))
    for wait in (0, 1):
        for users, z, rate, processes in pools:

            def busy(kind: str, **more: Any) -> Run:
                return pool(kind, waits(z)[wait], z, users, rate, processes=processes, **more)  # noqa: B023

            library = ("constant", "constant_pacing")[wait]
            yield replace(busy("constant think time"), wait=f"{library}({z})", think="")
            few = 1 + pools.index((users, z, rate, processes))
            mean = 0.04 * (few + 1)
            yield pool("too few users", f"uniform({mean / 4:g}, {7 * mean / 4:g})", mean, few + 1, few + 1, judged=12)
            yield busy("blocked loop", block=(0.005, 0.01) if wait else (0.08, 0.4))
            yield busy("busy machine", burn=4 if wait else 3)
            yield busy("stopped process", stop=(0.3, 3.0), judged=12)
            service = ("--servers", "1", "--time", f"answer=exponential({1.3 * z / users:g})")
            yield busy("saturated server", server=service, judged=13)
            stall = ("--stall", "0.5/3") if wait else ("--stall", "0.3/1.5")
            yield busy("stalling server", server=(*QUICK, *stall))
            once = (users / rate + 3 * z + 5, 1.0 + 0.2 * few)
            yield busy("one pause", hold_once=once)
            swing = {"wait": f"swinging({z}, 0.{5 + few % 4}, {2 + few})"} if wait else {"shape": 0.3 + 0.1 * few}
            yield replace(busy("sine without a plan", judged=14), **swing)
            yield replace(busy("metronome"), wait=f"constant_pacing({z})", metronome=z, think="")
            slow = ("--servers", "1000", "--time", f"answer={0.05 * few}")
            capacity = 8 / (0.05 * few)
            yield Run("", "too few users for the plan", f"paced(ConstantRate({capacity * (1.5 + wait):g}))", 8, 8,
                      3 + JUDGED_S, processes=processes, server=slow)  # fmt: skip
            storm = ("--servers", f"{0.02 * users / z:.0f}", "--room", "2", "--time", "answer=0.02")
            yield replace(busy("retry storm", server=storm), wait=f"retrying({z}, {0.02 if wait else 0.05})")


def all_runs() -> list[Run]:
    """Return every run, with its name and a seed of its own, sound ones first."""
    counts: Counter[str] = Counter()
    named = []
    for number, run in enumerate([*sound_runs(), *distorted_runs()]):
        counts[run.kind] += 1
        name = re.sub(r"\W+", "-", f"{run.kind} {counts[run.kind]:02}")
        named.append(replace(run, name=name, seed=number + 1))
    return named


# Running


@contextlib.contextmanager
def target(run: Run, log: Path) -> Iterator[dict[str, Any]]:
    """Run the server in a process of its own; the value is its announcement: url and pid."""
    command = [sys.executable, "-m", "locust_realism.targets", "--log", str(log), "--seed", str(run.seed), *run.server]
    with supervisor.start(command, GRACE_S, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline().removeprefix(supervisor.READY.encode()))
        finally:
            supervisor.end(process, GRACE_S)


@contextlib.contextmanager
def locust(run: Run, url: str, folder: Path, python: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start Locust in a process group of its own, which is killed at the end of the block."""
    workload = asdict(run) | {"marks": str(folder / "marks.json")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCUST_")}
    command = [
        python, "-m", "locust", "-f", str(LOCUSTFILE), "--headless", "--only-summary", "--host", url, "-u", run.users,
        "-r", run.rate, "-t", f"{run.seconds}s", "--realism-json", folder / "summary.json", "--realism-record",
        folder / "recording", "--realism-seed", run.seed,
    ]  # fmt: skip
    if run.processes > 1:
        port = free_port()
        command += ["--processes", run.processes, "--master-bind-port", port, "--master-port", port]
    with (folder / "output.txt").open("w") as output:
        process = subprocess.Popen(
            [str(word) for word in command], cwd=folder, env={**kept, "CALIBRATION_RUN": json.dumps(workload)},
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def burners(number: int, seconds: float) -> Iterator[None]:
    """Keep this number of processes busy until the end of the block, or for this time at most."""
    code = f"import time\nend = time.time() + {seconds}\nwhile time.time() < end: pass"
    processes = [subprocess.Popen([sys.executable, "-c", code], start_new_session=True) for _ in range(number)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def free_port() -> int:
    """Return a TCP port on the loopback address that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def stop_often(process: subprocess.Popen[bytes], length_s: float, every_s: float, until: float) -> None:
    """Stop the processes of Locust for ``length_s`` of every ``every_s`` seconds, from outside."""
    while process.poll() is None and time.monotonic() < until:
        time.sleep(every_s - length_s)
        family: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(process.pid)
            family = [parent, *parent.children(recursive=True)]
        for number, pause in ((signal.SIGSTOP, length_s), (signal.SIGCONT, 0.0)):
            for member in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.send_signal(number)
            time.sleep(pause)


def perform(run: Run, folder: Path, python: str = sys.executable) -> dict[str, Any]:
    """Do one run in an empty folder and return its line: verdict, truth and their agreement, or the ``error``."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in ("summary.json", "marks.json", "arrivals.log"):
        (folder / old).unlink(missing_ok=True)
    limit = run.seconds + 30
    line = {"name": run.name, "kind": run.kind, "python": python, "load": round(os.getloadavg()[0], 2)}
    began = time.monotonic()
    psutil.cpu_percent()
    with target(run, folder / "arrivals.log") as server, burners(run.burn, limit):
        with locust(run, server["url"], folder, python) as process:
            if run.stop:
                stop_often(process, *run.stop, began + limit)
            try:
                process.wait(max(began + limit - time.monotonic(), 1.0))
            except subprocess.TimeoutExpired:
                return line | {"error": f"no end within {limit} s"}
        used = psutil.Process(server["pid"]).cpu_times()
        line["server_cpu_s"] = round(used.user + used.system, 2)
    line |= {"seconds": round(time.monotonic() - began, 1), "machine_cpu": psutil.cpu_percent() / 100}
    try:
        document = json.loads((folder / "summary.json").read_text())
        marks = json.loads((folder / "marks.json").read_text())
    except (OSError, ValueError) as error:
        return line | {"error": f"{error}; {last_words(folder / 'output.txt')}"}
    return line | result(run, document, marks, folder / "arrivals.log")


def document_again(folder: Path) -> dict[str, Any]:
    """Return the present code's summary of the recording in the folder of a run."""
    own = [path for path in (folder / "recording").iterdir() if "-worker-" not in path.name]
    return dict(analyze([max(own)], AnalysisSettings())[1])


def judge_again(run: Run, folder: Path, line: dict[str, Any]) -> dict[str, Any]:
    """Return the line of a finished run with the verdict of the present code on its recording."""
    marks = json.loads((folder / "marks.json").read_text())
    return line | result(run, document_again(folder), marks, folder / "arrivals.log")


def last_words(output: Path) -> str:
    """Return the last line that a process wrote."""
    return (output.read_text().strip().splitlines() or ["no output"])[-1]


# Truth


@dataclass(frozen=True)
class Truth:
    """Figures of launches at the server: number of gaps, rate, CoV, short gaps and index of dispersion by window."""

    n: int
    rate: float
    cov: float
    short_gaps: float
    idc: dict[str, float]

    @classmethod
    def of(cls, times_s: np.ndarray) -> Truth:
        """Measure ascending times in seconds; short gaps are under a tenth of the mean, over those of independence.

        >>> Truth.of(np.arange(0.0, 30.0, 0.01)).idc["1"] < 0.01
        True
        """
        gaps = np.diff(times_s)
        if len(gaps) < 2:
            return cls(len(gaps), math.nan, math.nan, math.nan, {})
        mean = float(gaps.mean())
        idc = {}
        for width in WINDOWS_S:
            values = []
            for phase in range(PHASES):
                places = (times_s - times_s[0]) / width - phase / PHASES
                counts = np.bincount(places[places >= 0].astype(np.int64))[:-1]
                if len(counts) > 1:
                    values.append(float(counts.var(ddof=1) / counts.mean()))
            if values:
                idc[f"{width:g}"] = float(np.mean(values))
        short = float((gaps < 0.1 * mean).mean()) / -math.expm1(-0.1)
        return cls(len(gaps), 1 / mean, float(gaps.std(ddof=1)) / mean, short, idc)


def law(run: Run) -> dict[str, float]:
    """Return the index of dispersion that independent users of this workload have, by window.

    That of a pool is that of one user's trips. Users whose number varies, with the memory S, and who launch at rate r:
    1 + 2 r S (1 - (1 - exp(-w/S)) / (w/S)).
    """
    if run.think:
        trips = distribution_from_text(run.think).sample(np.random.default_rng(1), 200_000) + TRIP_S
        return Truth.of(np.cumsum(trips)).idc
    rate, memory = run.session
    shares = {f"{width:g}": width / memory if memory else 0.0 for width in WINDOWS_S}
    return {
        width: 1 + 2 * rate * memory * (1 + math.expm1(-share) / share) if share else 1.0
        for width, share in shares.items()
    }


def out_of_band(truth: Truth, run: Run) -> list[str]:
    """Return the figures of the server that are off the law by more than the verdict's bounds and three errors."""
    bounds, found = DEFAULT_BOUNDS, []
    error = bounds.standard_errors / math.sqrt(max(truth.n, 1)) * run.cov_high
    off = max(1 - truth.cov, truth.cov - run.cov_high)
    if off > max(bounds.cov_amber, error):
        found.append(f"CoV {truth.cov:.3f}")
    for width, expected in law(run).items():
        if width not in truth.idc:
            continue
        windows = truth.n / truth.rate / float(width)
        slow, memory = max(expected - 1, 0.0) / expected, run.session[1]
        independent = 1 + 1 / (1 / max(windows - 1, 1) + slow**2 * 2 * memory * truth.rate / truth.n)
        low, high = poisson_band(max(independent, 1.5), bounds.standard_errors)
        ratio = truth.idc[width] / expected
        if not min(low, 1 - bounds.dispersion_amber) <= ratio <= max(high, 1 + bounds.dispersion_amber):
            found.append(f"IDC({width} s) {truth.idc[width]:.2f}, law {expected:.2f}")
    return found


def judged_span(window: dict[str, Any]) -> tuple[float, float]:
    """Return the time in epoch seconds that the verdict covers, as the summary's sentence has it, to 0.1 s.

    The start is rounded up: users that a spawn step launches together are no part of it.
    """
    origin, text = window["origin_us"] / 1e6, window.get("judged_sentence", "")
    begin, end = window["start_us"] / 1e6, window["end_us"] / 1e6
    if found := re.search(r"time from (?:full spawn at )?([\d,.]+) s", text):
        begin = origin + float(found[1].replace(",", "")) + 0.05
    if found := re.search(r"stop request at ([\d,.]+) s", text):
        end = origin + float(found[1].replace(",", ""))
    return begin, end


def first_of_tasks(log: Path, run: Run, origin_s: float) -> Callable[[float, float], Truth]:
    """Return a function of a span in epoch seconds that measures the tasks' first requests in a server's log."""
    times_us, targets = read_arrivals(log)
    times = times_us[np.array([name.endswith("t=1") for name in targets], dtype=bool)] / 1e6

    def measured(begin: float, end: float) -> Truth:
        part = times[(times >= begin) & (times <= end)]
        if run.profile and len(part) > 1:
            profile = eval(run.profile, {"SineRate": locust_realism.SineRate})  # noqa: S307 - of the table above
            flat = profile.cumulative(np.maximum(part - origin_s, 0))
            part = (flat - flat[0]) * ((part[-1] - part[0]) / (flat[-1] - flat[0]))
        return Truth.of(part)

    return measured


def result(run: Run, document: dict[str, Any], marks: dict[str, float], log: Path) -> dict[str, Any]:
    """Return verdict, truth and agreement of a finished run as plain data."""
    verdict, window = document["verdict"], document["window"]
    by_status: dict[str, list[int]] = {}
    for check in verdict["checks"]:
        by_status.setdefault(check["status"], []).append(check["id"])
    rows = {f"{row['window_s']:g}": row["idc"] for row in document["dispersion"]}
    measured = first_of_tasks(log, run, window.get("origin_us", 0) / 1e6)
    truth = measured(marks["spawned"] + run.settle, marks["stopping"])
    same = measured(*judged_span(window)) if window["n"] else Truth.of(np.zeros(0))
    cov, faults = document["pattern"]["cov"], out_of_band(truth, run) if run.sound else []
    return {
        "overall": verdict["overall"], "sentence": verdict["sentence"],
        "causes": [cause["name"] for cause in verdict["causes"]],
        "explanation": verdict["causes"][0]["explanation"] if verdict["causes"] else "",
        "red": by_status.get("red", []), "amber": by_status.get("amber", []),
        "no_data": by_status.get("not enough data", []),
        "values": {str(c["id"]): c["value"] for c in verdict["checks"] if c["id"] in (1, 3, 6)},
        "requests": window["n"], "judged": window.get("judged", window["n"]), "cov": cov,
        "idc": {width: rows[width] for width in same.idc if width in rows},
        "server": asdict(truth), "server_judged": asdict(same), "out_of_band": faults,
        "disagrees": disagreements(cov, rows, same) if run.sound else [],
    }  # fmt: skip


def disagreements(cov: float | None, idc: dict[str, float], server: Truth) -> list[str]:
    """Return the figures of the verdict that differ from the server's by more than two standard errors."""
    found = []
    if cov is not None and abs(cov - server.cov) > 2 * max(server.cov, 1) / math.sqrt(max(server.n, 1)):
        found.append(f"CoV {cov:.3f}, server {server.cov:.3f}")
    for width, value in server.idc.items():
        windows = server.n / server.rate / float(width)
        if width in idc and abs(idc[width] - value) > 2 * value * math.sqrt(2 / max(windows - 1, 1)):
            found.append(f"IDC({width} s) {idc[width]:.2f}, server {value:.2f}")
    return found


# Tables


def wilson(hits: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """Return the 95 % interval of a share. Source: E. B. Wilson, J. American Statistical Association 22, 1927.

    >>> [round(limit, 2) for limit in wilson(10, 10)]
    [0.72, 1.0]
    """
    share, weight = hits / total, z * z / total
    middle, half = share + weight / 2, z * math.sqrt(share * (1 - share) / total + weight / (4 * total))
    return max((middle - half) / (1 + weight), 0.0), min((middle + half) / (1 + weight), 1.0)


def percent(hits: int, total: int) -> str:
    """Return a share of runs with its interval in words."""
    low, high = wilson(hits, total)
    return f"{hits} of {total}, {100 * hits / total:.0f} % ({100 * low:.0f} to {100 * high:.0f} %)"


def first_cause(line: dict[str, Any]) -> str:
    """Return the cause that the verdict names first."""
    return line["causes"][0] if line["causes"] else "none"


def most_common(names: Iterable[str]) -> str:
    """Return the names with their numbers, the most frequent first."""
    return "; ".join(f"{name} ({n})" for name, n in Counter(names).most_common(4))


def differences(lines: Sequence[dict[str, Any]], width: str | None) -> str:
    """Return the means of the verdict's and the server's CoV, or index of dispersion, over runs that have both."""
    pairs = []
    for line in lines:
        server = line["server_judged"]
        pair = (line["cov"], server["cov"]) if width is None else (line["idc"].get(width), server["idc"].get(width))
        if None not in pair and line["judged"] > 100:
            pairs.append(pair)
    if not pairs:
        return "-"
    seen, true = (np.array(side) for side in zip(*pairs, strict=True))
    return f"{seen.mean():.2f}, {true.mean():.2f} (± {np.abs(seen - true).mean():.2f})"


def tables(lines: Sequence[dict[str, Any]]) -> str:
    """Return both tables and the totals in Markdown."""
    done = [line for line in lines if "error" not in line]
    sound = [line for line in done if line["kind"] not in RIGHT]
    text = [
        "| sound runs | runs | green / amber / red / no verdict | server in band | named first (runs) "
        "| red checks (runs) | CoV: verdict, server (mean difference) | IDC at 0.1 s | figures agree |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for kind in dict.fromkeys(line["kind"] for line in sound):
        mine = [line for line in sound if line["kind"] == kind]
        overall = Counter(line["overall"] for line in mine)
        colours = " / ".join(str(overall[status]) for status in ("green", "amber", "red", "not enough data"))
        reds = sorted(Counter(check for line in mine for check in line["red"]).items())
        text.append(
            f"| {kind} | {len(mine)} | {colours} | {sum(not line['out_of_band'] for line in mine)} "
            f"| {most_common(map(first_cause, mine))} | {', '.join(f'{c}: {n}' for c, n in reds) or '-'} "
            f"| {differences(mine, None)} | {differences(mine, '0.1')} "
            f"| {sum(not line['disagrees'] for line in mine)} |"
        )
    text += ["", "| distortion | runs | named first right (95 % interval) | named first (runs) |", "|---|---|---|---|"]
    right = total = 0
    for kind, pattern in RIGHT.items():
        mine = [line for line in done if line["kind"] == kind]
        if mine:
            hits = sum(bool(re.search(pattern, first_cause(line))) for line in mine)
            right, total = right + hits, total + len(mine)
            text.append(
                f"| {kind} | {len(mine)} | {percent(hits, len(mine))} | {most_common(map(first_cause, mine))} |"
            )
    text.append("")
    known = [line for line in sound if line["overall"] != "not enough data"]
    band = [line for line in known if not line["out_of_band"]]
    if band:
        red, amber = (sum(line["overall"] == status for line in band) for status in ("red", "amber"))
        agree = sum(not line["disagrees"] for line in band)
        text += [
            f"Sound runs with a verdict and the server in band: {len(band)} of {len(sound)}.",
            f"Red: {percent(red, len(band))}, goal at most {GOAL_RED} of {GOAL_OF}.",
            f"Amber: {percent(amber, len(band))}, goal at most {GOAL_AMBER} of {GOAL_OF}.",
            f"CoV and dispersion agree with the server: {percent(agree, len(band))}.",
        ]
    if total:
        text.append(f"Distortions named first: {percent(right, total)}, goal {100 * GOAL_RIGHT:.0f} % of each.")
    text += [f"Failed run: {line['name']}: {line['error']}" for line in lines if "error" in line]
    return "\n".join(text)


# Command


def read_lines(path: Path) -> dict[str, dict[str, Any]]:
    """Return the last line of each run by its name."""
    if not path.exists():
        return {}
    return {line["name"]: line for line in map(json.loads, path.read_text().splitlines())}


def describe(line: dict[str, Any]) -> str:
    """Return one line about a finished run."""
    if "error" in line:
        return f"{line['name']}: {line['error']}"
    server = line["server"]
    true = f"CoV {server['cov']:.3f} IDC {'/'.join(f'{idc:.2f}' for idc in server['idc'].values())} of {server['n']}"
    return (
        f"{line['name']}: {line['overall']}, {first_cause(line)}, red {line['red']} amber {line['amber']}; server "
        f"{true}{' OUT OF BAND ' + str(line['out_of_band']) if line['out_of_band'] else ''}"
        f"{' DISAGREES ' + str(line['disagrees']) if line['disagrees'] else ''} [{line['seconds']} s]"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Do the runs that are missing and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs-dir", type=Path, default=Path("calibration-runs"), help="results (%(default)s)")
    parser.add_argument("--only", default="", help="regular expression: runs whose name has it")
    parser.add_argument("--list", action="store_true", help="print the runs and end")
    parser.add_argument("--table", action="store_true", help="print the tables of the runs that are done and end")
    parser.add_argument("--again", action="store_true", help="judge the recordings of the finished runs again")
    parser.add_argument("--python", default=sys.executable, help="interpreter of Locust (%(default)s)")
    options = parser.parse_args(arguments)
    runs = [run for run in all_runs() if re.search(options.only, run.name)]
    results = options.runs_dir / "runs.jsonl"
    done = read_lines(results)
    if options.list:
        for run in runs:
            print(f"{run.name:32} {run.seconds:3} s  {run.users} users, -r {run.rate:g}, {run.wait} {run.population}")
        print(f"{len(runs)} runs, {sum(run.seconds + 2 for run in runs) / 60:.0f} minutes")
        return 0
    missing = [run for run in runs if "error" in done.get(run.name, {"error": 1})]
    if options.again:
        with results.open("a") as file:
            for run in runs:
                if run not in missing:
                    line = judge_again(run, options.runs_dir / run.name, done[run.name])
                    file.write(json.dumps(line) + "\n")
                    print(describe(line), flush=True)
    if options.again or options.table:
        missing = []
    options.runs_dir.mkdir(parents=True, exist_ok=True)
    if missing and (busy := psutil.cpu_percent(interval=1.0)) > IDLE_PERCENT:
        print(f"The machine is {busy:.0f} % busy: these runs measure its other programs too.", file=sys.stderr)
    try:
        for number, run in enumerate(missing, start=1):
            line = perform(run, (options.runs_dir / run.name).resolve(), options.python)
            with results.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{number}/{len(missing)} {describe(line)}", flush=True)
    except KeyboardInterrupt:
        print("Interrupted; the same command goes on from here.", file=sys.stderr)
    lines = [line for name, line in read_lines(results).items() if re.search(options.only, name)]
    print(tables(lines))
    return int(len(lines) < len(runs) or any("error" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
