"""What the documents say is true: their commands run, their links lead somewhere.

Every ```sh block is run as it stands, in the order of its page, in one folder per page with the
project's .venv on PATH; a block that is followed by an ```output block must print exactly that.
The ```python blocks of a page are one program, which runs after them.
Blocks fenced as ```console or ```py are for people only (they would recurse, or need a recording
or a broker).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.window_pictures import IMAGES, KINDS, picture
from slackwater.engine.hosts.options import read_tables
from slackwater.engine.query.analysis.analyse import query

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
QUICK = {
    "README.md",
    *(f"docs/{page}.md" for page in ("index", "python", "glossary", "reference/checks")),
}
"""Pages that ``make test`` runs; the others start servers, or take many seconds."""
ROW_MAX = 200
"""Characters of a row of a table in the reference; longer ones are lists or paragraphs."""
SLOW_PAGE = [pytest.mark.slow, pytest.mark.xdist_group("demonstration")]  # use the same ports
SLOW = re.compile(r"^(make|slackwater run|python (?:job|stream).py)\b", re.MULTILINE)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """Commands of a page, where they stand, and what they must print (None: anything)."""

    place: str
    commands: str
    output: str | None

    @property
    def is_slow(self) -> bool:
        return SLOW.search(self.commands) is not None


def blocks(name: str, text: str, language: str = "sh") -> list[Block]:
    """The blocks of a page in that language."""
    found = []
    fences = list(FENCE.finditer(text))
    for number, fence in enumerate(fences):
        if fence[1] == language:
            line = text.count("\n", 0, fence.start()) + 1
            following = fences[number + 1 : number + 2]
            output = following[0][2] if following and following[0][1] == "output" else None
            found.append(Block(f"{name}:{line}", fence[2], output))
    return found


def run(block: Block, folder: Path) -> None:
    """Runs one block with bash; ``make`` runs in the project's folder."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.commands],
        cwd=ROOT if block.commands.startswith("make") else folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    reported = f"{block.place}\n{block.commands}\nstdout:\n{done.stdout}\nstderr:\n{done.stderr}"
    assert done.returncode == 0, reported
    assert "Traceback" not in done.stderr, reported
    if block.output is not None:
        assert done.stdout == block.output, reported


def place(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def page_blocks(page: Path, language: str = "sh") -> list[Block]:
    return blocks(place(page), page.read_text(encoding="utf-8"), language)


def program(pieces: list[Block]) -> str:
    """The blocks of Python one after another, with a NUL printed between what they print."""
    return "print(chr(0), end='')\n".join(piece.commands for piece in pieces)


def run_python(pieces: list[Block], folder: Path) -> None:
    """Runs the ```python blocks of a page; what each prints is compared."""
    done = subprocess.run(
        [sys.executable, "-c", program(pieces)],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{pieces[0].place}\n{done.stdout}\n{done.stderr}"
    for piece, printed in zip(pieces, done.stdout.split("\0"), strict=True):
        assert piece.output in {None, printed}, f"{piece.place}\n{printed}"


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=[] if place(page) in QUICK else SLOW_PAGE, id=place(page))
        for page in PAGES
        if page_blocks(page) or page_blocks(page, "python")
    ],
)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    for block in page_blocks(page):
        if not block.is_slow:
            run(block, tmp_path)
    if pieces := page_blocks(page, "python"):
        run_python(pieces, tmp_path)


@pytest.mark.parametrize("code", ["print(2)\n", "1 / 0\n"])
def test_python_that_fails_or_prints_otherwise_is_seen(code: str, tmp_path: Path) -> None:
    right = Block("a", "x = 1\nprint(x)\n", "1\n")
    run_python([right, right], tmp_path)
    with pytest.raises(AssertionError):
        run_python([right, Block("b", code, "1\n")], tmp_path)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "block",
    [block for page in PAGES for block in page_blocks(page) if block.is_slow],
    ids=lambda block: block.place,
)
def test_slow_commands_run(block: Block, tmp_path: Path) -> None:
    run(block, tmp_path)


def test_blocks_are_found_with_their_output() -> None:
    text = "# A\n\n```sh\necho 1\n```\n\n```output\n1\n```\n\n```console\nno\n```\n"
    text += "```sh\nmake x\n```\n"
    first, second = blocks("a.md", text)
    assert (first.place, first.commands, first.output) == ("a.md:3", "echo 1\n", "1\n")
    assert (second.is_slow, second.output) == (True, None)


@pytest.mark.parametrize(
    "block",
    [Block("a", "false\n", None), Block("a", "echo 2\n", "1\n"), Block("a", "no-such\n", None)],
)
def test_a_command_that_fails_or_prints_otherwise_is_seen(block: Block, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run(block, tmp_path)


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=place)
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        if link.startswith(("https://", "http://")):
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def targets(page: Path) -> set[Path]:
    """The pages that a page links to."""
    links = LINK.findall(page.read_text(encoding="utf-8"))
    return {(page.parent / link.partition("#")[0]).resolve() for link in links} & set(PAGES)


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, new = set(), {ROOT / "README.md"}
    while new:
        reached |= new
        new = {target for page in new for target in targets(page)} - reached
    assert set(PAGES) <= reached


def long_rows(text: str) -> list[str]:
    return [row for row in text.splitlines() if row.startswith("|") and len(row) > ROW_MAX]


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "reference").glob("*.md")), ids=place)
def test_rows_of_the_reference_are_short(page: Path) -> None:
    assert not long_rows(page.read_text(encoding="utf-8"))


def test_a_long_row_is_seen() -> None:
    assert len(long_rows(f"| {'x' * ROW_MAX} |\n{'y' * ROW_MAX * 2}\n| z |")) == 1


EXAMPLES = [
    line
    for page in PAGES
    for fence in FENCE.finditer(page.read_text(encoding="utf-8"))
    if fence[1] == "text"
    for line in fence[2].splitlines()
    if line.startswith(("EVENT", "SELECT"))
]


TABLES = read_tables(
    {"tags": [{"tag": 1, "room": "icu"}], "limits": [{"device": "d1", "most": 37.0}]}
)
"""Those that examples name."""


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_queries_are_understood(example: str) -> None:
    assert query(example, tables=TABLES).text == example


TEN_MINUTES = 600.0


@pytest.mark.deep
def test_two_commands_and_one_file_answer_in_ten_minutes(tmp_path: Path) -> None:
    (block,) = (
        each for each in page_blocks(ROOT / "docs" / "tutorial.md")
        if each.commands.startswith("slackwater new shop.toml")
    )  # fmt: skip
    assert len(block.commands.splitlines()) == 2
    began = time.monotonic()
    run(block, tmp_path)
    assert time.monotonic() - began < TEN_MINUTES
    assert {path.name for path in tmp_path.iterdir()} == {"shop.toml", "out"}
    report = json.loads((tmp_path / "out" / "shop" / "report.json").read_text(encoding="utf-8"))
    assert report["verdict"]["holds"]
    bounds = {each["name"]: each["bound"] for each in report["kpis"] if each["bound"]}
    assert bounds["theft: detection_delay_p95"] == "<= 3 s"
    page = (tmp_path / "out" / "shop" / "report.html").read_text(encoding="utf-8")
    assert page.index("PASS") < page.index('class="tile holds"') < page.index('class="hero"')
    slow = [
        "--set",
        "engine.barrier=bounded:5s",
        "--out",
        "out/slow",
        "--against",
        "out/shop",
        "--quiet",
    ]
    tool = Path(sys.executable).parent / "slackwater"
    done = subprocess.run(
        [tool, "run", "shop.toml", "--in-process", *slow],
        cwd=tmp_path, env=os.environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "theft: detection_delay_p95: " in done.stderr
    assert (tmp_path / "out" / "slow" / "against.html").exists()


@pytest.mark.parametrize("name", KINDS)
def test_the_picture_is_up_to_date(name: str) -> None:
    assert (IMAGES / f"windows-{name}.svg").read_text(encoding="utf-8") == picture(name)
