"""The page: nothing of others becomes an element, nothing is loaded, and its policy allows its own two parts only."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kernelwright.report.html import page
from kernelwright.report.model import Audience
from kernelwright.report.subjects import report_view
from tests.report.made import SOURCE, hostile_run, toy_run

ARCHIVE = Path(__file__).parents[2] / "benchmarks" / "results" / "answered.tar.xz"
LLAMA = f"{ARCHIVE}::llama_ffw@batch=2,tokens=128,features=4096,inner=14336"
ELEMENTS = frozenset(
    re.findall(
        r"\w+",
        "html head meta title style body nav div a header p h1 h2 h3 main article section details summary dl dt dd ul "
        "li i strong span br code pre table thead tbody tr th td label input select option output button footer script "
        "svg desc text line rect circle path wbr",
    )
)
ATTRIBUTES = frozenset(
    re.findall(
        r"\S+",
        "lang charset http-equiv content name class id href aria-label aria-labelledby aria-live tabindex role hidden "
        "open type value data-sortable data-kind data-standing data-value colspan viewbox xmlns width height x y x1 y1 "
        "x2 y2 cx cy r rx d fill text-anchor",
    )
)
LOADING = re.compile(
    r"""(?:src|srcset|action|poster|data)\s*=\s*["']|url\(|@import|https?://(?!www\.w3\.org/2000/svg)"""
)


class Reading(HTMLParser):
    """What a browser would make of a page: elements, attributes, and text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.parts: dict[str, str] = {}
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self._inside = tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if self._inside in ("script", "style"):
            self.parts[self._inside] = self.parts.get(self._inside, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""


def read(text: str) -> Reading:
    found = Reading()
    found.feed(text)
    found.close()
    return found


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = hostile_run(tmp_path_factory.mktemp("hostile"))
    return page(report_view([str(folder)], folder.parent, Audience.auditor))


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = toy_run(tmp_path_factory.mktemp("runs"))
    return page(report_view([str(folder)], folder.parent))


def test_hostile_text_makes_no_element_and_no_attribute(hostile: str) -> None:
    found = read(hostile)
    assert set(found.elements) <= ELEMENTS
    assert found.elements.count("script") == found.elements.count("style") == 1
    assert {name for _, name, _ in found.attributes} <= ATTRIBUTES
    assert all(value.startswith("#r") for _, name, value in found.attributes if name == "href")


def test_hostile_text_is_shown_as_it_is_written(hostile: str) -> None:
    """The source, line by line, but for letters that are spelt out."""
    shown = "".join(read(hostile).text)
    for line in SOURCE.splitlines():
        if line.isprintable():
            assert line in shown
    assert "\\x1b[31mred" in shown and "\\u202egnp.exe" in shown and "{{ 7 * 7 }}" in shown


def test_no_letter_of_a_page_is_obeyed(hostile: str) -> None:
    assert all(letter.isprintable() or letter in "\n\t" for letter in hostile)


def test_the_policy_allows_the_pages_own_style_and_script_alone(hostile: str) -> None:
    found = read(hostile)
    policy = next(value for tag, name, value in found.attributes if tag == "meta" and "default-src" in value)
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy and "*" not in policy
    for part in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(found.parts[part].encode()).digest()).decode()
        assert f"{part}-src 'sha256-{digest}'" in policy


def test_a_page_names_nothing_to_load(honest: str) -> None:
    assert not re.search(
        r"""(?:src|srcset|action|poster|data)\s*=\s*["']|url\(|@import|https?://(?!www\.w3\.org/2000/svg)""", honest
    )


@pytest.mark.parametrize(
    "words",
    [
        "What was proved, and where it does not hold",
        "Speedups with their intervals",
        "Errors beside eager",
        "How far it is from the bound",
        "Lineage of the best",
        "Rejected, and why",
        "it was rejected for what it did|its result is wrong",
        "device time",
        "kernelwright replay toy-",
        "1 hidden workload",
    ],
)
def test_a_page_has_every_part(honest: str, words: str) -> None:
    assert re.search(words, "".join(read(honest).text))


def test_elements_that_are_named_are_there(honest: str) -> None:
    found = read(honest)
    ids = [value for _, name, value in found.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    targets = {value[1:] for _, name, value in found.attributes if name == "href"}
    labels = {value for _, name, value in found.attributes if name == "aria-labelledby"}
    assert targets | labels <= set(ids) and targets


def test_the_same_run_gives_the_same_page(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, budget="12evals")
    first, second = (page(report_view([str(folder)], tmp_path)) for _ in range(2))
    assert first == second and str(tmp_path) not in first


def test_a_run_of_a_gpu_has_roofline_and_profile() -> None:
    shown = page(report_view([LLAMA], Path()))
    text = "".join(read(shown).text)
    assert "Roofline" in text and "operations per byte that must be moved" in text
    assert "Tensor cores are busy" in text and "gate_and_up" in text
    assert "signed by an unknown key" in text and "kernelwright replay answered.tar.xz::fd5686c1" in text
    assert "tokens=255" not in shown  # of a hidden workload


def test_several_results_stand_side_by_side(tmp_path: Path) -> None:
    folder = toy_run(tmp_path, budget="12evals")
    view = report_view([str(folder), str(ARCHIVE)], tmp_path)
    text = "".join(read(page(view)).text)
    assert f"{len(view.runs)} results" in text and "never averaged" in text
    assert all(run.task in text for run in view.runs)
