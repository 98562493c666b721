"""Charts: well-formed, described, and without a letter of others that is markup."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from kernelwright.judge.verdict import LaunchProfile
from kernelwright.report.charts import search, speed
from kernelwright.report.charts.svg import AxisScale, element, linear_ticks, log_ticks, short
from kernelwright.report.model import Ancestor, CurvePoint, WorkloadView
from tests.report.made import HOSTILE, workload

SVG = "{http://www.w3.org/2000/svg}"


def views(count: int = 2) -> list[WorkloadView]:
    results = [workload(f"{HOSTILE} {index}", 1.5 + index) for index in range(count)]
    return [WorkloadView(one.label, one, one.bound.seconds if one.bound else None) for one in results]


def points(count: int = 12) -> list[CurvePoint]:
    return [
        CurvePoint(
            evaluations=index + 1, seconds=float(index), number=index, kind="final" if index % 4 == 0 else "evaluation",
            estimate=1 + index / 10, score=1 + index / 11 if index % 4 == 0 else None, best_estimate=1 + index / 10,
            best_score=1 + index / 11 if index else None,
        )
        for index in range(count)
    ]  # fmt: skip


def ancestors(count: int) -> list[Ancestor]:
    return [
        Ancestor(
            number, HOSTILE, HOSTILE, 1.1, None, (number - 1, 1) if number > 2 else (number - 1,) * (number > 1), ()
        )
        for number in range(1, count + 1)
    ]


CHARTS = {
    "intervals": lambda: speed.intervals(views()),
    "times": lambda: speed.times(views()),
    "roofline": lambda: speed.roofline(views()),
    "curve": lambda: search.curve(points(), by_time=False),
    "curve over time": lambda: search.curve(points(), by_time=True),
    "lineage": lambda: search.lineage(ancestors(13), 13),
    "busy": lambda: search.busy(LaunchProfile(kernel=HOSTILE, of_dram=0.7, of_sm=0.1)),
}


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_well_formed_and_says_what_it_shows(name: str) -> None:
    drawn = CHARTS[name]()
    root = ElementTree.fromstring(drawn)
    assert isinstance(drawn, Markup) and root.tag == f"{SVG}svg" and root.get("role") == "img"
    assert (root[0].tag, root[1].tag) == (f"{SVG}title", f"{SVG}desc") and root[0].text and root[1].text
    tags = {one.tag.removeprefix(SVG) for one in root.iter()}
    assert tags <= {"svg", "title", "desc", "text", "line", "rect", "circle", "path"}
    assert not [key for one in root.iter() for key in one.attrib if key == "style" or key.startswith("on")]
    assert "nan" not in drawn and "inf" not in {one.get("x") for one in root.iter()}


def test_a_lineage_is_that_of_first_parents() -> None:
    assert [one.number for one in search.chain(ancestors(4), 4)] == [1, 2, 3, 4]
    shown = "".join(ElementTree.fromstring(search.lineage(ancestors(4), 4)).itertext())
    assert "with 0001" in shown and "0001 → 0002 → 0003 → 0004" in shown


@pytest.mark.parametrize(
    "drawn",
    [
        lambda: speed.intervals([]),
        lambda: speed.times([]),
        lambda: speed.roofline([]),
        lambda: search.curve([], by_time=True),
        lambda: search.lineage(ancestors(1), 1),
        lambda: search.busy(LaunchProfile(kernel="k")),
    ],
)
def test_nothing_to_show_is_no_chart(drawn: object) -> None:
    assert callable(drawn) and drawn() == Markup("")


def test_an_interval_is_where_its_axis_says() -> None:
    (one,) = views(1)
    root = ElementTree.fromstring(speed.intervals([one]))
    ticks = {text.text: float(text.get("x", 0)) for text in root.iter(f"{SVG}text") if text.get("class") == "tick"}
    bar = next(rect for rect in root.iter(f"{SVG}rect"))
    start, low = float(bar.get("x", 0)), one.result.baselines[0].speedup.low
    share = math.log(low / 1.0) / math.log(1.5 / 1.0)
    assert start == pytest.approx(ticks["1×"] + share * (ticks["1.5×"] - ticks["1×"]), abs=0.1)


@given(st.floats(0, 1e12), st.floats(1e-6, 1e12), st.integers(2, 12))
def test_ticks_are_few_and_inside(low: float, more: float, most: int) -> None:
    found = linear_ticks(low, low + more, most)
    assert len(found) <= most + 1
    assert all(low - 1e-6 * (low + more) <= value <= (low + more) * (1 + 1e-6) for value in found)


@given(st.floats(1e-9, 1e9), st.floats(1.01, 1e9), st.integers(3, 12))
def test_logarithmic_ticks_are_few_and_inside(low: float, factor: float, most: int) -> None:
    found = log_ticks(low, low * factor, most)
    assert len(found) <= most and all(low * 0.999 <= value <= low * factor * 1.001 for value in found)


@given(st.floats(0.1, 10), st.floats(-5, 20))
def test_a_place_is_never_outside(high: float, value: float) -> None:
    assert 10 <= AxisScale(0, high, 10, 90)(value) <= 90


def test_attributes_and_text_are_escaped() -> None:
    assert element("text", '<b>"', class_='a"b') == '<text class="a&#34;b">&lt;b&gt;&#34;</text>'


@pytest.mark.parametrize(("value", "words"), [(1e12, "1T"), (1500, "1.5k"), (0.25, "0.25"), (2e15, "2P")])
def test_short_numbers(value: float, words: str) -> None:
    assert short(value) == words
