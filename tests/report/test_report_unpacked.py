"""What draws a page's figures is unpacked by the browser; one that cannot says so."""

from __future__ import annotations

import re
from pathlib import Path
from subprocess import run
from typing import Any

import pytest

from engine.report.write import write_report
from tests.page.chromium import CHROMIUM, FLAGS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium here (Debian: chromium)"),
]
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


def shown(page: str, folder: Path) -> str:
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
    found = shown(page, tmp_path)
    note = NOTE.search(found)
    assert note is not None
    assert note[1], "a note for old browsers is hidden in this one"
    assert 'class="main-svg"' in found
    assert re.search(r'data-plots="[1-9]', found)


def test_a_browser_that_cannot_unpack_says_so(page: str, tmp_path: Path) -> None:
    found = shown(page.replace("<head>", "<head>" + OLD, 1), tmp_path)
    note = NOTE.search(found)
    assert note is not None
    assert not note[1]
    assert "older than 2023" in note[2]
    assert "numbers are in the tables" in note[2]
    assert 'class="main-svg"' not in found
    assert 'data-plots="0"' in found, "no empty places are left"
