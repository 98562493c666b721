"""Makes docs/images/report.png: the top of a report on a run of an H200, from the archive of runs.

    python benchmarks/pages/report_picture.py

Needs Chromium and the package playwright. The key that signed the archive's certificates is trusted for this page, in a
home that is thrown away.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = "conv_relu_pool@batch=64,channels=1,height=28,width=28,filters=32"
TARGET = ROOT / "docs" / "images" / "report.png"
WIDTH, MOST_BYTES = 1080, 300_000
LAST = "#r1-speed"  # the part that the picture ends with
sys.path.insert(0, str(ROOT))


def text() -> str:
    from benchmarks.shared.kept import ANSWERED

    from kernelwright.judge import certificate
    from kernelwright.judge.strangers import trusted
    from kernelwright.report.html import page
    from kernelwright.report.subjects import report_view

    signed = {issued.judge for issued in certificate.load_all(ANSWERED).values() if issued.task.name == RUN}
    for key in signed:
        trusted.add(key, "benchmarks")
    return page(report_view([f"{ANSWERED}::{RUN}"], Path()))


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("report_picture.py: there is no Chromium here")
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as home, sync_playwright() as started:
        os.environ["KERNELWRIGHT_HOME"] = home
        written = Path(home) / "report.html"
        written.write_text(text(), encoding="utf-8")
        browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(written.as_uri())
        end = page.locator(LAST).bounding_box()
        height = end["y"] + end["height"] + 16
        page.screenshot(path=TARGET, full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})
        browser.close()
    if TARGET.stat().st_size > MOST_BYTES:
        raise SystemExit(f"report_picture.py: {TARGET} is larger than {MOST_BYTES:,} bytes")
    print(f"{TARGET.relative_to(ROOT)}: {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
