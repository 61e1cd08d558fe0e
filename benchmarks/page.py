"""A page that polls a run of 10 million rows: how long an answer takes, and whether the users' event loop feels it.

    python benchmarks/page.py [--rows 10000000] [--polls 15]

The run is fed at full speed, then the web UI is asked for the figures every two seconds, as a page does, by a process
of its own. Printed are the longest answer (aim: 200 ms) and the longest pause of the event loop while the figures are
computed anew, beside that of the same loop when nobody asks. The exit status is 1 when an answer took longer.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import gevent

sys.path.insert(0, str(Path(__file__).parent))
from locust import User
from locust.env import Environment
from soak import fed, provider_of

from locust_realism.runtime.capture.files import FilePlan
from locust_realism.runtime.capture.run import attach
from locust_realism.web.views import register

AIM_S = 0.2
TICK_S = 0.001

POLLER = """
import sys, time, urllib.request
url, polls = sys.argv[1], int(sys.argv[2])
for _ in range(polls):
    start = time.perf_counter()
    size = len(urllib.request.urlopen(url, timeout=60).read())
    print(time.perf_counter() - start, size, flush=True)
    time.sleep(2)
"""


class Gaps:
    """The longest pause of the event loop, beyond the sleep that was asked for, since the last look."""

    def __init__(self) -> None:
        self.longest = 0.0
        gevent.spawn(self._watch)

    def _watch(self) -> None:
        while True:
            start = perf_counter()
            gevent.sleep(TICK_S)
            self.longest = max(self.longest, perf_counter() - start - TICK_S)

    def look(self) -> float:
        """Seconds; starts anew."""
        longest, self.longest = self.longest, 0.0
        return longest


def main() -> int:
    """Feed, poll, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the run")
    parser.add_argument("--polls", type=int, default=15, help="how often the page asks")
    options = parser.parse_args()
    sys.argv = sys.argv[:1]  # Locust reads them for its form
    environment = Environment(user_classes=[User])
    environment.create_local_runner()
    with TemporaryDirectory() as directory:
        recording = attach(environment, files=FilePlan(Path(directory)))
        provider = provider_of(environment, recording)
        web_ui = environment.create_web_ui("127.0.0.1", 0, delayed_start=True)
        register(web_ui, provider)
        environment.events.test_start.fire(environment=environment)
        fed(options.rows, recording, provider)
        web_ui.start()
        gevent.sleep(0.5)
        gaps = Gaps()
        gevent.sleep(5)
        idle = gaps.look()
        url = f"http://127.0.0.1:{web_ui.server.address[1]}/realism/api/summary"
        poller = subprocess.Popen([sys.executable, "-c", POLLER, url, str(options.polls)], stdout=subprocess.PIPE)
        assert poller.stdout is not None
        answers = [line.split() for line in poller.stdout.read().splitlines()]  # lets the greenlets run
        busy = gaps.look()
        poller.wait()
        recording.detach()
        web_ui.stop()
    first, *later = [float(seconds) for seconds, _ in answers]
    print(f"{options.rows:,} rows, {len(answers)} polls, {int(answers[-1][1]) / 1000:.0f} kB each")
    print(f"answer: first {first * 1e3:.0f} ms, longest later one {max(later) * 1e3:.0f} ms (aim {AIM_S * 1e3:.0f})")
    print(f"longest pause of the event loop: {busy * 1e3:.0f} ms while polled, {idle * 1e3:.0f} ms when nobody asks")
    return 0 if max(later) <= AIM_S else 1


if __name__ == "__main__":
    sys.exit(main())
