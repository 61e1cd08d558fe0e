"""Pictures of the diagnoses for the docs: the verdict of one calibration run of each distortion.

    python benchmarks/calibrate_runs.py          # the real runs
    python tools/diagnoses.py [calibration-runs] # docs/images/diagnosis-*.png

Of each kind the first run whose cause was named first is drawn, by the report's own page in Chromium. Needs the extra
``dev``.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from locust_realism.report.html import render_report

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
from calibrate_runs import RIGHT, document_again, first_cause, read_lines  # noqa: E402


def main() -> None:
    """Draw the verdict of each kind of distortion."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="?", type=Path, default=ROOT / "calibration-runs", help="folder of the runs")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images", help="folder of the pictures")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    chosen: dict[str, Path] = {}
    for line in read_lines(options.runs / "runs.jsonl").values():
        kind = line["kind"]
        if kind in RIGHT and "error" not in line and re.search(RIGHT[kind], first_cause(line)):
            chosen.setdefault(kind, options.runs / line["name"])
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as pages:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1100, "height": 900}, device_scale_factor=1.5)
        for kind, folder in chosen.items():
            report = Path(pages) / "report.html"
            report.write_text(render_report({"title": kind, "summary": document_again(folder)}))
            page.goto(report.as_uri())
            name = f"diagnosis-{re.sub(r'[^a-z]+', '-', kind.lower())}.png"
            page.locator(".lr-verdict").first.screenshot(path=options.out / name)
            print(f"{name}: {folder.name}")
        browser.close()


if __name__ == "__main__":
    main()
