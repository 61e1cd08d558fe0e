"""Figures of the kernel, on the files of several systems, and names of other processes."""

import math
import os
import time

import psutil
import pytest

from locust_realism.runtime.capture.busy_processes import BusyProcesses, Uses, display_name, uses_of
from locust_realism.runtime.capture.kernel_figures import Counter, KernelFigures, run_wait_seconds
from locust_realism.runtime.locust_compat import native_thread_id


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def system(tmp_path, cgroup, *, throttled="", pressure=""):
    """Make the files of a system; return its /proc and /sys/fs/cgroup."""
    proc, cgroups = tmp_path / "proc", tmp_path / "cgroup"
    write(proc / "self" / "task" / str(native_thread_id()) / "schedstat", "5000000000 1000000000 7\n")
    write(proc / "self" / "cgroup", cgroup)
    if pressure:
        write(proc / "pressure" / "cpu", pressure)
    if throttled:
        write(cgroups / throttled, "")
    return proc, cgroups


PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


@pytest.mark.parametrize(
    ("cgroup", "limited", "text"),
    [
        ("0::/kube/pod/web\n", "kube/pod/cpu.stat", "usage_usec 9\nnr_throttled 3\nthrottled_usec {us}\n"),
        ("0::/\n", "cpu.stat", "nr_throttled 3\nthrottled_usec {us}\n"),
        (
            "4:memory:/a\n2:cpu,cpuacct:/job\n0::/\n",
            "cpu,cpuacct/job/cpu.stat",
            "nr_throttled 3\nthrottled_time {us}000\n",
        ),
    ],
    ids=["version 2, limit above", "container", "version 1"],
)
def test_shares_of_the_time_between_two_readings(tmp_path, cgroup, limited, text):
    """Three quarters of the time waited, half throttled, all under pressure, in whichever cgroup the limit is."""
    proc, cgroups = system(tmp_path, cgroup, throttled=limited, pressure=PRESSURE.format(0))
    (cgroups / limited).write_text(text.format(us=0))
    figures = KernelFigures(proc, cgroups)
    began = time.perf_counter()
    time.sleep(0.2)
    us = (time.perf_counter() - began) * 1e6
    stat = next(proc.glob("self/task/*/schedstat"))
    stat.write_text(f"5000000000 {1_000_000_000 + round(us * 750)} 7\n")
    (cgroups / limited).write_text(text.format(us=round(us / 2)))
    (proc / "pressure" / "cpu").write_text(PRESSURE.format(round(3 * us)))
    found = figures.take()
    assert found["run_wait"] == pytest.approx(0.75, rel=0.2)
    assert found["throttled"] == pytest.approx(0.5, rel=0.2)
    assert found["pressure"] == 1.0
    time.sleep(0.05)
    assert figures.take()["run_wait"] == 0.0
    figures.close()


@pytest.mark.parametrize(("waits", "share"), [(True, 0.25), (False, 0.75)], ids=["wait known", "wait unknown"])
def test_throttled_time_of_several_cpus_is_bounded_by_the_threads_own_wait(tmp_path, waits, share):
    """Three CPUs throttled for a quarter of the time count three quarters, of which the main thread had one."""
    proc, cgroups = system(tmp_path, "0::/\n", throttled="cpu.stat")
    stat = next(proc.glob("self/task/*/schedstat"))
    (cgroups / "cpu.stat").write_text("throttled_usec 0\n")
    if not waits:
        stat.unlink()
    figures = KernelFigures(proc, cgroups)
    began = time.perf_counter()
    time.sleep(0.2)
    us = (time.perf_counter() - began) * 1e6
    if waits:
        stat.write_text(f"5000000000 {1_000_000_000 + round(us * 250)} 7\n")
    (cgroups / "cpu.stat").write_text(f"throttled_usec {round(0.75 * us)}\n")
    assert figures.take()["throttled"] == pytest.approx(share, rel=0.2)
    figures.close()


def test_system_without_the_files_has_no_figures(tmp_path, caplog):
    """Figures that a system lacks are NaN and logged once at debug level; none raises."""
    with caplog.at_level("DEBUG"):
        figures = KernelFigures(tmp_path / "none", tmp_path / "none")
    time.sleep(0.05)
    found = figures.take()
    assert all(math.isnan(found[name]) for name in ("run_wait", "throttled", "pressure"))
    assert 0 <= found["machine_cpu"] <= 1
    assert [record.getMessage() for record in caplog.records] == [
        "locust_realism: this system does not measure run_wait, throttled, pressure."
    ]
    figures.close()


def test_file_that_changes_its_form_is_unknown_from_then_on(tmp_path):
    path = tmp_path / "schedstat"
    path.write_text("1 2000000000 3\n")
    counter = Counter(run_wait_seconds, path)
    assert counter.seconds() == 2.0
    path.write_text("x\n")
    assert math.isnan(counter.seconds())
    counter.close()
    assert math.isnan(counter.seconds())
    assert not Counter(run_wait_seconds, tmp_path / "none").exists


def test_thread_that_has_never_run_is_a_kernel_that_does_not_count(tmp_path):
    """Three zeros are no wait of 0 s; negative control: a thread that has run and never waited."""
    path = tmp_path / "schedstat"
    path.write_text("0 0 0\n")
    assert not Counter(run_wait_seconds, path).exists
    path.write_text("5000 0 1\n")
    counter = Counter(run_wait_seconds, path)
    assert (counter.exists, counter.seconds()) == (True, 0.0)
    counter.close()


def test_files_without_the_figure_are_closed(tmp_path, monkeypatch):
    """The root cgroup of version 2 has a cpu.stat without throttled_usec; negative control: the files with a figure."""
    proc, cgroups = system(tmp_path, "0::/a/b\n", throttled="a/cpu.stat")
    (cgroups / "a" / "cpu.stat").write_text("throttled_usec 5\n")
    for folder in ("", "a/b"):
        write(cgroups / folder / "cpu.stat", "usage_usec 5\n")
    left = {}
    open_file, close_file = os.open, os.close

    def opening(path, flags):
        file = open_file(path, flags)
        left[file] = path
        return file

    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(os, "close", lambda file: (left.pop(file), close_file(file)))
    figures = KernelFigures(proc, cgroups)
    assert set(left.values()) == {next(proc.glob("self/task/*/schedstat")), cgroups / "a" / "cpu.stat"}
    figures.close()
    assert left == {}


def test_system_without_flags_of_unix_reads_its_files(tmp_path, monkeypatch):
    """Windows has neither flag."""
    for flag in ("O_CLOEXEC", "O_NONBLOCK"):
        monkeypatch.delattr(os, flag)
    path = tmp_path / "schedstat"
    path.write_text("1 2000000000 3\n")
    counter = Counter(run_wait_seconds, path)
    assert counter.seconds() == 2.0
    counter.close()


def test_machine_whose_times_cannot_be_read_has_no_figures_at_first(tmp_path, monkeypatch):
    """An error of psutil does not stop the test at its start; later ones are the caller's."""
    proc, cgroups = system(tmp_path, "0::/\n")

    def refuse():
        raise psutil.AccessDenied

    with monkeypatch.context() as patch:
        patch.setattr(psutil, "cpu_times", refuse)
        figures = KernelFigures(proc, cgroups)
        with pytest.raises(psutil.AccessDenied):
            figures.take()
    assert all(map(math.isnan, figures.take().values()))
    time.sleep(0.05)
    assert figures.take()["run_wait"] == 0.0
    figures.close()


# Other processes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "command", "shown"),
    [
        ("ffmpeg", ["ffmpeg", "-i", "secret.mp4"], "ffmpeg"),
        ("python3", ["python3", "-u", "/srv/report.py", "token"], "python3 report.py"),
        ("python3", ["python3", "-c", "import secret"], "python3"),
        ("python3", ["python3", "-u", "-m", "http.server", "80"], "python3 http.server"),
        ("python3", ["python3", "-m", "http.server --token=x"], "python3"),
        ("python3", ["python3", "-W", "/secret", "report.py"], "python3"),
        ("python3", ["python3", "-", "--password", "a/secret"], "python3"),
        ("python3", ["python3", "-uc", "a/secret"], "python3"),
        ("python3", ["python3", "secret"], "python3"),
        ("python3", ["python3", "-u"], "python3"),
        ("sh", ["sh", "/srv/start", "-psecret"], "sh start"),
        ("node", ["node", "server.mjs", "secret"], "node server.mjs"),
        ("bash", ["bash", "-lc", "mysql -psecret a/b"], "bash"),
        ("sh", ["sh", "-ec", "run.sh"], "sh"),
        ("bash", ["bash", "-s", "--", "--token", "a/secret"], "bash"),
        ("bash", ["bash", "-u", "a/secret"], "bash"),
        ("bash", ["bash", "TOKEN=a/secret"], "bash"),
        ("bash", ["bash", "my script.sh"], "bash"),
        ("node", ["node", "-p", "'a/secret'"], "node"),
        ("php", ["php", "-r", "a/secret"], "php"),
        ("perl", ["perl", "-ne", "s/a/secret/"], "perl"),
        ("perl", ["perl", "-m", "secret"], "perl"),
        ("java", [], "java"),
        ("bash", ["bash", "-c", "mysql -psecret"], "bash"),
        ("a\nb", ["a"], "a?b"),
    ],
)
def test_names_hold_no_arguments(name, command, shown):
    assert display_name(name, command) == shown


def test_own_master_and_workers_are_no_others():
    """The same program of the same user is this Locust; that of another user, and a new process, are not."""
    before = {(1, 0.0): ("locust", 0, 1.0), (2, 0.0): ("locust", 0, 1.0), (3, 0.0): ("locust", 5, 1.0)}
    now = {
        (1, 0.0): ("locust", 0, 1.2),
        (2, 0.0): ("locust", 0, 1.2),
        (3, 0.0): ("locust", 5, 2.0),
        (4, 9.0): ("cc", 0, 3.0),
    }
    assert uses_of(*map(_seen, (before, now)), 2.0, own_pid=1) == Uses(
        pytest.approx(0.2), (("cc", 1.5), ("locust", 0.5))
    )


def _seen(table):
    from locust_realism.runtime.capture.busy_processes import _Seen

    return {key: _Seen(*value) for key, value in table.items()}


def test_looks_are_rare_and_only_at_a_busy_machine():
    processes = BusyProcesses()
    assert processes.due(0.9)
    assert not processes.due(0.8)
    assert processes.look() is None, "nothing to compare with"
    assert not processes.due(1.0)
