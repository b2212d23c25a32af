"""The documentation as a site (``make docs``): every page, no broken link, no network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from slackwater.engine.cli import app
from tests.page.chromium import MARKS, complaints, started

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page.relative_to(DOCS).with_suffix(".html") for page in DOCS.rglob("*.md"))
LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?(?:src|href)=[\"']?([^\"'\s>]+)")
LOADED_BY_STYLE = re.compile(r"(?:url\(|@import\s+)[\"']?([^\"')\s]+)")
NETWORK = re.compile(r"(?:https?:)?//")


def build(settings: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-f", settings, "-d", site],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.fixture(name="site", scope="module")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    done = build(ROOT / "mkdocs.yml", site)
    assert done.returncode == 0, done.stderr
    return site


@pytest.fixture(name="browser", scope="module")
def _browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    with started(tmp_path_factory.mktemp("chromium")) as made:
        yield made


@pytest.fixture(name="package")
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation's folder, without the documentation."""
    monkeypatch.setattr(app, "_PACKAGE", tmp_path / "slackwater")
    return tmp_path / "slackwater"


def test_the_command_says_where_it_is(
    package: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert app.run(["docs"]) == 1
    assert "type make docs" in capsys.readouterr().err
    (package.parent / "mkdocs.yml").touch()  # a clone
    assert app.run(["docs"]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == (
        f"{package.parent / 'docs' / 'index.md'}\n", "without make docs the pages are text\n",
    )  # fmt: skip
    page = package / "site" / "index.html"
    page.parent.mkdir(parents=True)
    page.touch()
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert app.run(["docs", "--open"]) == 0
    assert capsys.readouterr().out == f"{page}\n"
    assert opened == [page.as_uri()]


@pytest.mark.slow
def test_a_wheel_has_it(site: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    for name in ("slackwater", "edge_agent", "engine", "simulator", "scenarios"):
        left_out = shutil.ignore_patterns("__pycache__", "site")
        shutil.copytree(ROOT / name, clone / name, symlinks=True, ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, clone)
    shutil.copytree(site, clone / "slackwater" / "site")
    subprocess.run(
        [
            sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
            "--disable-pip-version-check", "-w", tmp_path, clone,
        ],
        check=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    shutil.unpack_archive(wheel, tmp_path / "installed", "zip")
    pages = tmp_path / "installed" / "slackwater" / "site"
    for page in ("index.html", "reference/order.html", "search/search_index.js"):
        assert (pages / page).read_bytes() == (site / page).read_bytes()
    html = (pages / "index.html").read_text(encoding="utf-8")
    loaded = [each.partition("?")[0] for each in LOADED.findall(html)]
    assert len(loaded) > 5
    assert [each for each in loaded if not (pages / each).exists()] == []


def from_network(site: Path) -> Iterator[str]:
    """What the pages and styles of a site load from elsewhere."""
    for file in sorted(site.rglob("*")):
        if pattern := {".html": LOADED, ".css": LOADED_BY_STYLE}.get(file.suffix):
            for address in pattern.findall(file.read_text(encoding="utf-8")):
                if NETWORK.match(address):
                    yield f"{file.relative_to(site)}: {address}"


def test_every_page_is_there_and_can_be_found(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert found == {page.as_posix() for page in PAGES}
    assert all((site / page).exists() for page in PAGES)


def test_no_cell_shows_how_its_bar_is_escaped(site: Path) -> None:
    # GitHub wants `a\\|b` in a table and shows a bar; a site shows the backslash, too.
    cells = re.compile(r"<td>(?:(?!</td>).)*\\\|")
    assert not [page for page in PAGES if cells.search((site / page).read_text(encoding="utf-8"))]


def test_nothing_comes_from_a_network(site: Path) -> None:
    assert not list(from_network(site))


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("a.html", '<script async src="https://cdn.example/x.js"></script>'),
        ("a.html", "<link rel=stylesheet href=//fonts.example/css>"),
        ("a.css", "@font-face {src: url(https://fonts.example/x.woff)}"),
    ],
)
def test_what_comes_from_a_network_is_seen(file: str, text: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text(text)
    assert len(list(from_network(tmp_path))) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("# A\n\n[x](#a)\n", None),
        ("# A\n\n[x](b.md)\n", "b.md"),
        ("# A\n\n[x](#b)\n", "#b"),
    ],
)
def test_a_broken_link_fails_the_build(text: str, named: str | None, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "index.md").write_text(text)
    settings = tmp_path / "mkdocs.yml"
    settings.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\ndocs_dir: {pages}\nnav: [index.md]\nextra_css: []\n"
    )
    done = build(settings, tmp_path / "site")
    assert (done.returncode == 0) is (named is None)
    assert named is None or named in done.stderr


class TestInBrowser:
    """The site opened as a file, as from a disk without a network."""

    pytestmark = MARKS

    def test_search_finds_a_word(self, browser: webdriver.Chrome, site: Path) -> None:
        browser.get(f"{(site / 'index.html').as_uri()}?q=kslack")
        hits = WebDriverWait(browser, 20).until(
            lambda page: page.find_elements(By.CSS_SELECTOR, ".md-search-result__link")
        )
        assert any("reference" in str(hit.get_attribute("href")) for hit in hits)
        assert not complaints(browser)

    @pytest.mark.parametrize("width", [1400, 390])
    def test_no_page_is_wider_than_its_window(
        self, browser: webdriver.Chrome, site: Path, width: int
    ) -> None:
        browser.set_window_size(width, 900)
        wide = []
        for page in PAGES:
            browser.get((site / page).as_uri())
            root = "document.documentElement"
            if browser.execute_script(f"return {root}.scrollWidth > {root}.clientWidth + 1"):
                wide.append(page.as_posix())
        assert not wide
