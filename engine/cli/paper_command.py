"""``slackwater paper``: published tables and figures reproduced, ours beside the paper's."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.markup import escape
from rich.padding import Padding

from slackwater.engine.apps.report.page.document import check_new_page, check_page_folder, spoken
from slackwater.engine.cli.options import Quiet
from slackwater.engine.cli.terminal import plain_console, print_compiling, table_of, watched
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import number
from slackwater.paper import Advanced, Finding, Paper, PaperRun
from slackwater.scenarios import papers
from slackwater.scenarios.papers.overview import HTML as ALL_HTML
from slackwater.scenarios.papers.overview import JSON as ALL_JSON
from slackwater.scenarios.papers.overview import headline, write_overview
from slackwater.scenarios.papers.page import HTML, JSON, Reproduced, write_reproduced

Name = Annotated[
    str | None,
    typer.Argument(
        metavar="[PAPER[/NAME]]",
        help="As r19/table-5.6, or a part of a long paper; without it: what there is.",
    ),
]


def reproduce(
    name: Name = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Every table and figure of PAPER (or its part), as one page; of all papers, "
            "with a page that has every claim.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for paper.html and paper.json; with --all: out/PAPER, out/PAPER-PART, or "
            "out/papers.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of everything random.")] = 1,
    scale: Annotated[
        float, typer.Option(metavar="SHARE", help="Share of the published sizes, for a quick look.")
    ] = 1.0,
    quiet: Quiet = False,
) -> None:
    """Reproduces a paper's tables and figures: our numbers, the paper's, and which claims hold."""
    if name is None and every:
        _all(out or Path("out") / "papers", seed, scale, quiet=quiet)
        return
    if name is None:
        _list({each: load(each) for each in known_papers()})
        return
    whole, _, entry = name.partition("/")
    paper = load(whole)
    if entry in paper.parts:
        paper, whole, entry = paper.parts[entry], name, ""
    if not every and not entry:
        _list({whole: paper})
        return
    _check_scale(scale)
    chosen = _chosen(whole, paper, entry, every=every)
    if every and out is None:
        out = Path("out") / whole.replace("/", "-")
    if out is not None:
        check_new_page(out, (HTML, JSON))
    print_compiling(quiet=quiet)
    found = _reproduced(paper, chosen, seed, scale, quiet=quiet)
    _print(found, with_tables=not every)
    if out is not None:
        sys.stdout.write(f"{write_reproduced(found, out)}\n")


def _check_scale(scale: float) -> None:
    if not 0 < scale <= 1:
        raise UserError(f"--scale {scale}: must lie above 0 and be at most 1")


def _all(out: Path, seed: int, scale: float, *, quiet: bool) -> None:
    """Reproduce every paper, each in a folder of ``out``, and write the page of all claims.

    Raises:
        UserError: one of the folders has other files.
    """
    _check_scale(scale)
    names = known_papers()
    check_new_page(out, (ALL_HTML, ALL_JSON, *names))
    for each in names:
        check_page_folder(out / each, (HTML, JSON))
    print_compiling(quiet=quiet)
    found = {}
    for each in names:
        paper = load(each)
        made = _reproduced(paper, list(paper.reproductions), seed, scale, quiet=quiet)
        write_reproduced(made, out / each)
        found[each] = made
        sys.stdout.write(f"{each}: {made.headline}\n")
    sys.stdout.write(f"{headline(found)}\n{write_overview(found, out)}\n")


def known_papers() -> list[str]:
    """Names of the papers, as folders of ``scenarios/papers/``."""
    return sorted(each.name for each in pkgutil.iter_modules(papers.__path__) if each.ispkg)


def load(name: str) -> Paper:
    """Load the paper ``name``.

    Raises:
        UserError: there is none; names the known ones.
    """
    if name not in known_papers():
        raise UserError(f"no paper {name!r}; there are {', '.join(known_papers())}")
    found: Paper = importlib.import_module(f"slackwater.scenarios.papers.{name}.paper").paper()
    return found


def _chosen(name: str, paper: Paper, entry: str, *, every: bool) -> list[str]:
    """Names of the reproductions to run.

    Raises:
        UserError: an unknown name, or a name together with --all.
    """
    if entry and entry not in paper.reproductions:
        known = ", ".join((*paper.parts, *paper.reproductions))
        raise UserError(f"{name} has no {entry!r}; there are {known}")
    if every and entry:
        raise UserError(f"{name}/{entry} --all: give --all, or one table or figure")
    if every:
        return list(paper.reproductions)
    return [entry]


def _reproduced(
    paper: Paper, chosen: list[str], seed: int, scale: float, *, quiet: bool
) -> Reproduced:
    step = ""

    def watch(what: str) -> AbstractContextManager[Advanced]:
        return watched(f"{step}: {what}", quiet=quiet)

    findings: dict[str, Finding] = {}
    with TemporaryDirectory(prefix="slackwater-paper-") as folder:
        run = PaperRun(seed, scale, Path(folder), watch)
        for place, name in enumerate(chosen, 1):
            step = f"{name} ({place} of {len(chosen)})"
            findings[name] = paper.reproductions[name].make(run)
    return Reproduced(paper, findings, seed, scale)


def _list(found: Mapping[str, Paper]) -> None:
    """Print every table and figure by its name, grouped by part."""
    for name, paper in found.items():
        sys.stdout.write(f"{name}: {paper.title} ({paper.citation})\n")
        if paper.parts:
            _list({f"{name}/{part}": each for part, each in paper.parts.items()})
            continue
        whole = name.partition("/")[0]
        width = max(len(entry) for entry in paper.reproductions)
        for entry, each in paper.reproductions.items():
            sys.stdout.write(f"  {whole}/{entry.ljust(width)}  {each.title}\n")


def _print(found: Reproduced, *, with_tables: bool) -> None:
    """Print verdicts, then tables; figures are only on the page."""
    console = plain_console()
    console.print(f"[bold]{escape(found.headline)}[/]", highlight=False)
    for line in (found.paper.summary(found.findings), found.made):
        if line:
            console.print(escape(line), highlight=False)
    for name, finding in found.findings.items():
        title = f"{spoken(name)}: {found.paper.reproductions[name].title}"
        console.print(f"\n[bold]{escape(title)}[/]", highlight=False)
        for claim in finding.claims:
            mark = "[green]holds[/]" if claim.holds else "[red]fails[/]"
            console.print(f"{mark}  {escape(claim.text)}", highlight=False)
            for line in claim.detail.splitlines():
                detail = Padding(f"[dim]{escape(line)}[/]", (0, 0, 0, 7), expand=False)
                console.print(detail, highlight=False)
        for text, why in finding.not_judged.items():
            console.print(f"[yellow]not judged[/]  {escape(text)}", highlight=False)
            console.print(Padding(f"[dim]{escape(why)}[/]", (0, 0, 0, 7)), highlight=False)
        for table in finding.tables if with_tables else ():
            cells = [[x if isinstance(x, str) else number(x) for x in row] for row in table.rows]
            title, note = escape(table.title), escape(table.note) or None
            console.print(table_of(table.headings, cells, bool, title=title, caption=note))
