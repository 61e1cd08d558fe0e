"""Support of the browser tests: the installed Chromium, pages with their console errors, sites, figures of a page."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support import environment, eventually, free_port

HERE = Path(__file__).parent / "e2e"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
TITLES = ["Launches", "Percentiles", "Population", "Generator", "Capacity"]
DASH = "–"

CONTRASTS = """(root) => {
  const channel = (v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if ((colour[3] ?? 1) > 0.95) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const node of root.querySelectorAll("*")) {
    const text = [...node.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join("");
    if (!text || !node.checkVisibility() || node.closest(".lr-hidden, option")) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(behind(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push([text.slice(0, 40), ratio.toFixed(2)]);
  }
  return low;
}"""


def chromium() -> str:
    """Return Chromium's path; without one skip the test, or fail it in CI."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        if os.environ.get("CI") == "true":
            pytest.fail("chromium is not installed, and CI needs it for the tests of the page")
        pytest.skip("chromium is not installed")
    return path


class Tabs:
    """Page of Locust with our tabs, and every error of its console."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda entry: entry.type in ("error", "warning") and self.errors.append(entry.text))

    def open(self, url: str) -> Tabs:
        """Load a page and wait for Locust's own part of it."""
        self.page.goto(url)
        self.page.wait_for_selector("#root main")
        return self

    def choose(self, title: str) -> Any:
        """Select a tab, wait for its figures and return its section."""
        self.page.get_by_role("tab", name=title, exact=True).click()
        section = self.page.locator("#locust-realism")
        section.locator(".lr-tab").wait_for(state="visible", timeout=15_000)
        return section

    def table(self, caption: str) -> list[dict[str, str]]:
        """Return the rows of a table by its caption: heading to text, without small print."""
        script = """(table) => {
          const text = (cell) => {
            const copy = cell.cloneNode(true);
            copy.querySelectorAll('.lr-note, .lr-sign').forEach((part) => part.remove());
            return copy.textContent.trim();
          };
          const heads = [...table.tHead.rows[0].cells].map(text);
          const pairs = (row) => [...row.cells].map((cell, i) => [heads[i], text(cell)]);
          return [...table.tBodies[0].rows].map((row) => Object.fromEntries(pairs(row)));
        }"""
        table = self.page.locator("table", has=self.page.locator("caption", has_text=caption)).first
        rows: list[dict[str, str]] = table.evaluate(script)
        return rows

    def option(self, name: str) -> Any:
        """Return the ECharts option of the chart of that name, once it is drawn."""
        script = """async (name) => {
          const node = document.querySelector(`[data-chart="${name}"]`);
          const chart = node && window.echarts?.getInstanceByDom(node);
          if (!chart) return null;
          const option = chart.getOption();
          const plain = ({ name, type, data, color }) => ({ name, type, data, color });
          const [x, y] = [option.xAxis[0].type, option.yAxis[0].type];
          return { series: option.series.map(plain), text: option.textStyle.color, x, y };
        }"""
        return eventually(lambda: self.page.evaluate(script, name), within=10, because=f"chart {name}")

    def colours(self, name: str) -> int:
        """Return the number of colours in a chart's canvas."""
        script = """(node) => { const canvas = node.querySelector('canvas');
          const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
          const seen = new Set();
          for (let i = 0; i < data.length; i += 4) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
          return seen.size; }"""
        return int(self.page.locator(f'[data-chart="{name}"]').evaluate(script))


@contextmanager
def opened(browser: Any, *, clean: bool = True, width: int = 1400, **options: Any) -> Iterator[Tabs]:
    """Open a page of its own, in English; ``clean`` demands a console without errors and warnings."""
    context = browser.new_context(viewport={"width": width, "height": 1000}, **{"locale": "en-US", **options})
    tabs = Tabs(context.new_page())
    try:
        yield tabs
    finally:
        context.close()
    assert not clean or tabs.errors == []


@contextmanager
def site(*options: str) -> Iterator[str]:
    """Serve the page of tabs_site.py with these options; yield its address."""
    port = free_port()
    command = [sys.executable, str(HERE / "tabs_site.py"), str(port), *options]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        url = f"http://127.0.0.1:{port}{'/load' if 'base' in options else ''}/"
        eventually(lambda: process.poll() is not None or answers(url), within=30, because="the page is served")
        assert process.poll() is None, process.communicate()[0]
        yield url
    finally:
        process.kill()
        process.communicate()


def answers(url: str) -> bool:
    """Return True if a page is served there."""
    with suppress(OSError), urllib.request.urlopen(url, timeout=5):
        return True
    return False


def ask(url: str) -> Any:
    """Return a JSON document of a server."""
    with urllib.request.urlopen(url, timeout=20) as answer:
        return json.load(answer)


def number(text: str) -> float | None:
    """Return a figure of an English page as a number, None for a dash."""
    return None if text == DASH else float(text.replace(",", "").removesuffix(" %"))


def shows(text: str, value: float | None) -> bool:
    """Return True if a cell shows a value to its last digit."""
    shown = number(text)
    if shown is None or value is None:
        return shown is None and value is None
    digits = len(text.partition(".")[2])
    return abs(shown - value) <= 0.5 * 10**-digits * (1 + 1e-6) + 1e-12
