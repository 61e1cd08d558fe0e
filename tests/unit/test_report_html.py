"""The report: one page that loads nothing, with no name of a request in its markup."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from locust_realism.analysis.summary import summarize
from locust_realism.recording.launches import LaunchLog
from locust_realism.report.html import END, START, add_section, embedded_json, render_report

HOSTILE = '</script><script>window.hacked = 1</script><!-- <img src=x onerror="window.hacked=2"> \u2028 & =cmd()'
LOCUST_PAGE = (
    "<!DOCTYPE html>\n<html><head></head><body>\n<div id='root'></div>\n<script>var a = 1</script></body></html>\n"
)


def document(name: str = HOSTILE) -> dict[str, object]:
    rng = np.random.default_rng(1)
    launch = np.cumsum(rng.exponential(10_000, 500)).astype(np.int64)
    return {"title": name, "summary": summarize(LaunchLog.build(launch, rng.exponential(20_000, 500), names=name))}


class Page(HTMLParser):
    """Elements of a page as a browser parses them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags:
            self.texts.setdefault(self.tags[-1][0], []).append(data)


def test_a_hostile_name_adds_no_element() -> None:
    harmless = [tag for tag, _ in Page(render_report(document("home"))).tags]
    assert [tag for tag, _ in Page(render_report(document())).tags] == harmless
    assert harmless.count("script") == 4


def test_the_name_arrives_unchanged_in_the_data() -> None:
    text = re.search(
        r'<script type="application/json" id="lr-data">(.*?)</script>', render_report(document()), re.DOTALL
    )
    assert text
    assert json.loads(text[1])["summary"]["launches"][0]["label"] == HOSTILE


@given(
    st.recursive(
        st.text() | st.floats() | st.none() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_data_is_safe_in_a_script_element_and_can_be_read_back(data: object) -> None:
    text = embedded_json({"data": data})
    assert not set(text) & set("<>&\u2028\u2029")
    text.encode("utf-8")
    back = json.loads(text, parse_constant=lambda word: pytest.fail(word))
    assert json.loads(embedded_json(back)) == back


def test_the_page_may_load_nothing_and_run_only_its_own_scripts() -> None:
    page = render_report(document())
    parsed = Page(page)
    policy = next(
        attrs["content"] for tag, attrs in parsed.tags if attrs.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 3
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    for tag, attrs in parsed.tags:
        if (tag, attrs) == ("link", {"rel": "icon", "href": "data:,"}):
            continue  # an empty icon, so that no browser asks the server for one
        assert not {"src", "href", "onload", "onerror", "srcset"} & set(attrs)


def test_without_scripts_the_figures_are_there_as_text() -> None:
    found = re.search(r"<noscript><pre>(.*?)</pre></noscript>", render_report(document("home")), re.DOTALL)
    assert found
    assert "Verdict: " in found[1]
    assert "home" in found[1]


def test_a_name_with_a_lone_surrogate_can_be_written() -> None:
    render_report(document("\ud800 broken")).encode("utf-8")


def test_the_section_goes_into_locusts_page_once() -> None:
    page = add_section(LOCUST_PAGE, document())
    assert page.startswith(LOCUST_PAGE[: LOCUST_PAGE.index("</body>")])
    assert page.endswith("</body></html>\n")
    assert page.count(START) == page.count(END) == 1
    again = add_section(page, document("home"))
    assert again.count(START) == again.count('id="lr-report"') == 1
    assert add_section(again, document()) == page


def test_a_hostile_name_cannot_fake_the_end_of_the_section() -> None:
    page = add_section(LOCUST_PAGE, document(f"x {END} y"))
    assert page.count(END) == 1
    assert add_section(page, document("home")) == add_section(LOCUST_PAGE, document("home"))


def test_a_page_that_is_not_locusts_is_refused() -> None:
    with pytest.raises(ValueError, match="no </body>"):
        add_section("plain text", document())
