"""Pictures of the diagnoses for the docs: the verdict of one calibration run of each distortion.

    python benchmarks/calibrate_runs.py          # the real runs
    python tools/diagnoses.py [calibration-runs] # docs/images/diagnosis-*.png

Of each kind the first run whose cause was named first is drawn, by the report's own page in Chromium. Needs the extra
``dev``.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from locust_realism.report.html import render_report

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
from calibrate_runs import RIGHT  # noqa: E402


def main() -> None:
    """Draw the verdict of each kind of distortion."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=Path, default=ROOT / "calibration-runs", help="folder of the runs")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images", help="folder of the pictures")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen: dict[str, Path] = {}
    for line in map(json.loads, (options.runs / "runs.jsonl").read_text().splitlines()):
        summary = options.runs / line["name"] / "summary.json"
        if (
            line["kind"] in RIGHT
            and summary.exists()
            and re.search(RIGHT[line["kind"]], " ".join(line.get("causes", [])[:1]))
        ):
            chosen.setdefault(line["kind"], summary)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 900}, device_scale_factor=1.5)
        for kind, summary in chosen.items():
            report = Path(folder) / "report.html"
            report.write_text(render_report({"title": kind, "summary": json.loads(summary.read_text())}))
            page.goto(report.as_uri())
            name = f"diagnosis-{re.sub(r'[^a-z]+', '-', kind.lower())}.png"
            page.locator(".lr-verdict").first.screenshot(path=options.out / name)
            print(f"{name}: {summary.parent.name}")
        browser.close()


if __name__ == "__main__":
    main()
