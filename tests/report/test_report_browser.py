"""Pages in a real browser: nothing is cut off, wide or narrow; what can be clicked works."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from subprocess import run
from typing import Any

import pytest
from selenium import webdriver

from slackwater.engine.apps.report.write import write_report
from slackwater.engine.cli.app import run as command
from tests.page.chromium import CHROMIUM, FLAGS, MARKS, complaints, started
from tests.report.test_own_report import COUNTS, PAIRS, shop
from tests.sweep.test_sweeps import SWEEP, TEXT

pytestmark = MARKS
WIDTHS = (1400, 420)
CUT_OFF = """
document.querySelectorAll("details").forEach(each => { each.open = true; });
return new Promise(done => setTimeout(() => done(
  [document.documentElement, ...document.querySelectorAll(
    ".scroll, nav, pre, figure, section, h1, h2, .tile, .half, li, p")]
  .filter(each => each.clientWidth && each.scrollWidth > each.clientWidth + 1)
  .map(each => `${each.tagName}.${each.className} ${each.scrollWidth} > ${each.clientWidth}: `
    + each.textContent.trim().slice(0, 60))), 400));
"""


@pytest.fixture(name="browser", scope="module")
def _browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with started(tmp_path_factory.mktemp("chromium")) as made:
        yield made


def show(browser: webdriver.Chrome, page: Path, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(page.absolute().as_uri())


def check(browser: webdriver.Chrome, page: Path) -> None:
    for width in WIDTHS:
        show(browser, page, width)
        assert browser.execute_script(CUT_OFF) == [], f"{page.name} at {width} px"
        assert complaints(browser) == [], f"{page.name} at {width} px"


@pytest.fixture(name="rich")
def _rich(rich_run: Any) -> Path:
    """The page of a scenario's run with everything."""
    run = rich_run
    write_report(
        run.directory, run.title, "Three.", run.queries, run.passes, run.score, {}, "again"
    )
    return Path(run.directory) / "report.html"


def test_a_scenarios_page(browser: webdriver.Chrome, rich: Path) -> None:
    check(browser, rich)


def test_pages_of_own_data_and_of_two_runs(
    browser: webdriver.Chrome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.jsonl").write_text(shop())
    own = ["--input", "shop.jsonl", "--time-unit", "ms", "--out", "x.jsonl", "--quiet"]
    assert command(["query", PAIRS, COUNTS, *own, "--report", "a"]) == 0
    assert command(["query", PAIRS, COUNTS, *own, "--report", "b", "--against", "a"]) == 0
    assert command(["order", *own, "--report", "c"]) == 0
    compared = ["compare", "--input", "shop.jsonl", "--time-unit", "ms", "--out", "d", "--quiet"]
    assert command(compared) == 0
    log = ["log", "import", "shop.jsonl", "--time-unit", "ms", "--out", "shop.log"]
    assert command(log) == 0
    assert command(["validate", "--log", "shop.log", "--query", PAIRS, "--out", "e"]) in (0, 1)
    assert command(["validate", "--two-logs", "shop.log", "shop.log", "--out", "f"]) == 0
    for page in ("a/report.html", "b/against.html", "c/report.html", "d/compare.html",
                 "e/validate.html", "f/two-logs.html"):  # fmt: skip
        check(browser, Path(page))


def test_a_sweeps_page(
    browser: webdriver.Chrome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pairs.toml").write_text(TEXT)
    command([*SWEEP, "--sweep", "sources.a.workload.period=100ms,200ms"])
    assert json.loads(Path("swept/sweep.json").read_text())["cells"]
    check(browser, Path("swept/sweep.html"))


def test_headings_sort_links_open_and_folded_figures_are_drawn(
    browser: webdriver.Chrome, rich: Path
) -> None:
    show(browser, rich, 1400)
    run = browser.execute_script
    assert run("return getComputedStyle(document.querySelector('nav')).position") == "sticky"
    assert run("return document.querySelector('#clocks details .plot').childElementCount") == 0
    run("document.querySelector('#clocks details').open = true")
    drawn = "return document.querySelectorAll('#clocks details .plot svg').length"
    for _ in range(50):
        if run(drawn):
            break
        run("return new Promise(done => setTimeout(done, 100))")
    assert run(drawn)
    run("location.hash = '#matches-0-confirmed-0'")
    run("return new Promise(done => setTimeout(done, 200))")
    assert run("return document.querySelector('#matches details').open")
    cells = "return [...document.querySelectorAll('#windows table.sortable tbody tr')].map("
    cells += "row => row.cells[1].textContent)"
    run("document.querySelectorAll('#windows details').forEach(each => { each.open = true; })")
    before = run(cells)
    run("document.querySelectorAll('#windows table.sortable th[scope=col]')[1].click()")
    assert run(cells) == sorted(before, key=float)
    assert run("return document.querySelectorAll('.hero .plot .scatterlayer .trace').length") > 1


OLD = "<script>delete window.DecompressionStream;</script>"
NOTE = re.compile(r'<p class="fails" id="not-drawn"( hidden="")?>([^<]+)</p>')
HEIGHTS = """<script>
addEventListener("load", () => setTimeout(() => {
  const plots = Array.from(document.querySelectorAll(".plot")).filter(each => each.clientHeight);
  document.body.dataset.plots = plots.length;
}, 3000));
</script>"""


@pytest.fixture(name="page")
def _page(rich_run: Any) -> str:
    write_report(
        rich_run.directory, rich_run.title, "Three.", rich_run.queries, rich_run.passes,
        rich_run.score, {}, "again",
    )  # fmt: skip
    return (Path(rich_run.directory) / "report.html").read_text("utf-8")


def elements_of(page: str, folder: Path) -> str:
    """The page's elements once its scripts are done, with how many plots take room."""
    path = folder / "page.html"
    path.write_text(page.replace("</body>", HEIGHTS + "</body>"), "utf-8")
    flags = (*FLAGS, f"--user-data-dir={folder}/profile", "--virtual-time-budget=10000")
    done = run(
        [str(CHROMIUM), *flags, "--dump-dom", path.as_uri()],
        capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    return done.stdout


def test_figures_are_drawn_by_what_was_unpacked(page: str, tmp_path: Path) -> None:
    found = elements_of(page, tmp_path)
    note = NOTE.search(found)
    assert note is not None
    assert note[1], "a note for old browsers is hidden in this one"
    assert 'class="main-svg"' in found
    assert re.search(r'data-plots="[1-9]', found)


def test_a_browser_that_cannot_unpack_says_so(page: str, tmp_path: Path) -> None:
    found = elements_of(page.replace("<head>", "<head>" + OLD, 1), tmp_path)
    note = NOTE.search(found)
    assert note is not None
    assert not note[1]
    assert "older than 2023" in note[2]
    assert "numbers are in the tables" in note[2]
    assert 'class="main-svg"' not in found
    assert 'data-plots="0"' in found, "no empty places are left"
