"""The page in a real browser: nothing hostile runs, loads or appears as an element; large runs show at once.

Needs Chromium and the package playwright, whose own browsers are not used.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from kernelwright.report.html import page
from kernelwright.report.model import Audience
from kernelwright.report.subjects import report_view
from tests.report.made import HOSTILE, SOURCE, hostile_run, toy_run
from tests.search import toy

pytestmark = pytest.mark.browser
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FIRST_PAINT_MS, MOST_BYTES = 1_000, 5_000_000
PHONE, DESKTOP = 390, 1280


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here")
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Watched:
    """A page, and everything it tried that it must not."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        self.dialogs: list[str] = []
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page = browser.new_page(**options)
        self.page.on("dialog", self._dialog)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(path.as_uri(), timeout=20_000, wait_until="load")

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "report.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("hostile")
    return written(root, page(report_view([str(hostile_run(root))], root, Audience.auditor)))


def test_hostile_text_is_text(browser: Any, hostile: Path) -> None:
    seen = Watched(browser, hostile)
    view = seen.page
    view.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    for place in view.query_selector_all("td, pre, h1, rect, circle")[:40]:
        place.dispatch_event("mouseover")
    view.fill("[data-sortable] input", HOSTILE[:40])
    view.click("[data-sortable] th:nth-child(3) button")
    view.wait_for_timeout(200)
    assert seen.dialogs == [] and seen.complaints == []
    assert seen.requests == [hostile.as_uri()]
    assert view.evaluate("document.querySelectorAll('img, iframe, object, embed, form, base, link').length") == 0
    assert view.evaluate("document.scripts.length") == 1
    assert view.evaluate(
        "[...document.querySelectorAll('*')].every(e => [...e.attributes].every(a => !/^on/.test(a.name)))"
    )
    shown = view.evaluate("[...document.querySelectorAll('pre code')].map(one => one.textContent).join('')")
    assert all(line in shown for line in SOURCE.splitlines() if line.isprintable())


@pytest.fixture
def listener() -> Iterator[tuple[str, list[str]]]:
    """The address of a server on this machine, and what it was asked for."""
    asked: list[str] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.daemon_threads = True
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


def test_the_policy_stops_what_would_slip_through(
    browser: Any, hostile: Path, tmp_path: Path, listener: tuple[str, list[str]]
) -> None:
    """An injected script, handler, style and image, as if escaping had failed."""
    address, asked = listener
    worst = (
        f"<script>alert(1)</script><img src='{address}/image' onerror='alert(2)'><script src='{address}/s'></script>"
        f"<link rel=stylesheet href='{address}/style'><p style='color:red'>x</p>"
    )
    text = hostile.read_text(encoding="utf-8")
    seen = Watched(browser, written(tmp_path, text.replace("<main>", f"<main>{worst}")))
    seen.page.wait_for_timeout(300)
    assert seen.dialogs == [] and asked == []
    assert any("Content Security Policy" in words for words in seen.complaints)
    open_page = text.replace("Content-Security-Policy", "nothing").replace("<main>", f"<main>{worst}")
    unguarded = Watched(browser, written(tmp_path, open_page))
    assert asked and unguarded.dialogs  # without the policy all of it happens: this test can fail


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_a_page_fits_and_can_be_read(browser: Any, tmp_path: Path, scheme: str, width: int) -> None:
    folder = toy_run(tmp_path, budget="20evals")
    path = written(tmp_path, page(report_view([str(folder)], tmp_path)))
    seen = Watched(browser, path, color_scheme=scheme, viewport={"width": width, "height": 844})
    assert seen.page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert seen.page.evaluate(CONTRAST) >= 4.5 and seen.complaints == []


# The least contrast of running text with what is behind it, as WCAG counts it.
CONTRAST = """() => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map(Number).map((v) => v / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (node) => {
    for (let one = node; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)") return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const found = [...document.querySelectorAll("p, li, td, th, h1, h2, h3, dd, dt, .badge")].map((node) => {
    const [a, b] = [light(getComputedStyle(node).color), light(behind(node))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05);
  });
  return Math.min(...found);
}"""


@pytest.mark.slow
def test_two_thousand_candidates_show_at_once(browser: Any, tmp_path: Path) -> None:
    state = toy.search(tmp_path, policy="islands", budget="2100evals")
    assert len(state.entries) >= 2_000
    path = written(tmp_path, page(report_view([str(tmp_path / "toy-1")], tmp_path)))
    assert path.stat().st_size < MOST_BYTES
    paints = []
    for _ in range(3):  # the machine may be busy with something else
        seen = Watched(browser, path)
        paints.append(seen.page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime"))
    assert min(paints) < FIRST_PAINT_MS
    view = seen.page
    view.click("[data-sortable] > summary")
    view.select_option("[data-sortable] select", "rejected")
    shown, total = map(int, view.inner_text("[data-sortable] output").split(" of "))
    rejected = sum(entry.standing == "rejected" for entry in state.entries.values())
    assert (shown, total) == (rejected, len(state.entries))
    view.select_option("[data-sortable] select", "")
    view.click("[data-sortable] th:nth-child(3) button")
    values = view.evaluate(
        "[...document.querySelectorAll('[data-sortable] td:nth-child(3)')].map(c => c.dataset.value)"
    )
    numbers = [float(value) for value in values if value]
    assert numbers == sorted(numbers, reverse=True) and "" not in values[: len(numbers)]
