"""A whole page as one HTML file: styles, Plotly, figures and numbers inside; no network."""

from __future__ import annotations

import gzip
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slackwater.engine.apps.report.numbers import Cell, as_json
from slackwater.engine.apps.report.page.figures import Figure
from slackwater.engine.apps.report.page.tables import versions_text
from slackwater.engine.core.errors import UserError, need
from slackwater.engine.core.units import number, percent
from slackwater.engine.log.whole_file import whole_file
from slackwater.engine.scenario import Table

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup


# How a page was made: command, date and versions, in the page's last section.
#
# This is on the page only: the JSON numbers are the same from run to run.


CHAPTER: Final = {"run": "How it was made"}


@dataclass(frozen=True, slots=True)
class HowMade:
    """``command``: empty if there was none; ``made_at``: for people; ``facts``: a table."""

    command: str
    made_at: str
    facts: Table


def _how_made(command: str, made_with: Mapping[str, str]) -> HowMade:
    """For a page that is made now, by ``command``, with these versions."""
    made_at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    rows = (("done on", made_at), ("made with", versions_text(made_with)))
    return HowMade(command, made_at, Table("", ("", ""), tuple(row for row in rows if row[1])))


# A folder with a page and its numbers: checked before the work; each file is written atomically.


def check_page_folder(out: Path, names: Collection[str], option: str = "--out") -> None:
    """Check early for errors that would otherwise occur at the end.

    Args:
        out: the folder.
        names: files that it may contain already.
        option: the option that named it.

    Raises:
        UserError: it is a file, or contains other files.
    """
    if out.exists() and not out.is_dir():
        raise UserError(f"{out}: is a file; choose a folder for {option}")
    check_parents(out, option)
    entries = {path.name for path in out.iterdir()} if out.exists() else set()
    other = sorted(entries - set(names))
    if other:
        raise UserError(f"{out}: holds other files ({other[0]}); choose another {option}")


def check_parents(folder: Path, option: str = "--out") -> None:
    """Check that the folder can be created.

    Raises:
        UserError: a parent is a file.
    """
    above = next(path for path in folder.absolute().parents if path.exists())
    if not above.is_dir():
        raise UserError(f"{folder}: {above} is a file, not a folder; choose another {option}")


def check_new_page(out: Path, names: Collection[str]) -> None:
    """Check early for errors that would otherwise occur at the end, for ``--out``.

    Raises:
        UserError: see ``check_page_folder``.
        MissingExtra: the extra [report] is not installed.
    """
    need("report")
    check_page_folder(out, names)


# A whole page as one HTML file: styles, Plotly, figures and numbers inside; no network.
#
# A content security policy forbids every request, so the page is the same online and offline. The
# templates are next to this file. Their content is escaped.


POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; font-src data:"
)
_QUANTITY: Final = re.compile(
    r"[<>±+-]? ?[0-9][0-9,.]*([ \xa0]?(%|ns|µs|us|ms|s|min|h|d|ppm))?( ±.*)?$|\N{EN DASH}$"
)
"""Right-aligned cells: numbers, optionally with separators, a sign, a bound or a percent sign."""
_TEMPLATES: Final = Path(__file__).parent / "templates"
_Laid = tuple[str, bool]


def write_page(
    out: Path, template: Path, title: str, chapters: Mapping[str, str],
    report: Mapping[str, Any], *, command: str = "", beside: Collection[str] = (), **content: Any,
) -> Path:  # fmt: skip
    """Write the page and ``report`` as JSON into the folder ``out``, created if missing.

    Args:
        out: the folder.
        template: see ``document``; the files have its name.
        title: heading.
        chapters: see ``document``; with ``CHAPTER`` if the template says how it was made.
        report: plain data, with ``made_with``.
        command: command line that repeats it.
        beside: other files that ``out`` may contain.
        content: other variables of the template.

    Returns:
        the page's path.

    Raises:
        UserError: see ``check_page_folder``.
    """
    json = template.with_suffix(".json").name
    how = _how_made(command, report["made_with"])
    page = document(template, title, chapters, report, json, how=how, **content)
    files = {json: as_json(report, indent=1) + "\n", template.name: page}
    check_page_folder(out, {*files, *beside})
    out.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        write_text(out / name, text)
    return out / template.name


def write_text(path: Path, text: str) -> None:
    """Write a file atomically."""
    with whole_file(path) as sink:
        sink.write(text.encode())


def document(
    template: Path,
    title: str,
    chapters: Mapping[str, str],
    report: Mapping[str, Any],
    json: str,
    **content: Any,
) -> str:
    """Render the page.

    Args:
        template: a file, or the name of one in ``templates/``; extends ``page.html``.
        title: heading.
        chapters: anchor of a section -> its name in the contents.
        report: plain data; all numbers of the page.
        json: name of the JSON file with the same numbers.
        content: other variables of the template; figures in it are drawn.
    """
    return _templates((_TEMPLATES / template).parent).get_template(template.name).render(
        title=title,
        chapters=chapters,
        specs=[each.spec() for each in _figures(content)],
        report=report,
        json=json,
        policy=POLICY,
        plotly=_packed_plotly(),
        **content,
    )  # fmt: skip


@cache
def _packed_plotly() -> str:
    """The library's script, gzipped, in base64: 1.9 MB instead of 4.8."""
    from plotly.offline import get_plotlyjs  # noqa: PLC0415 - slow, and --help makes no page

    return b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()


def _figures(content: Any) -> Iterator[Figure]:
    """Every figure in the variables of a template."""
    if isinstance(content, Figure):
        yield content
    elif isinstance(content, Mapping | list | tuple):
        for each in content.values() if isinstance(content, Mapping) else content:
            yield from _figures(each)


def _templates(folder: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415

    made = Environment(
        loader=FileSystemLoader([_TEMPLATES, folder]), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "allow_nan": False}
    made.filters |= {
        "anchor": anchor, "breakable": breakable, "laid_out": laid_out, "number": number,
        "percent": percent, "spoken": spoken,
    }  # fmt: skip
    return made


def laid_out(
    headings: Sequence[str], rows: Iterable[Sequence[Cell]]
) -> tuple[list[_Laid], list[list[_Laid]]]:
    """The texts of a table, each with whether it is right-aligned: quantities after column one.

    >>> laid_out(("pass", "events"), [("main", 1500), ("none", None)])[0]
    [('pass', False), ('events', True)]
    """
    texts = [[cell if isinstance(cell, str) else number(cell) for cell in row] for row in rows]
    body = [[(text, at > 0 and bool(_QUANTITY.match(text))) for at, text in enumerate(row)]
            for row in texts]  # fmt: skip
    head = [(text, at > 0 and all(row[at][1] for row in body)) for at, text in enumerate(headings)]
    return head, body


def breakable(text: str) -> Markup:
    """A name with break opportunities between its parts.

    >>> breakable("kslack:160ms")
    Markup('kslack:<wbr>160ms')
    """
    from markupsafe import Markup, escape  # noqa: PLC0415 - of the extra [report]

    return Markup(re.sub(r"([:=]|,(?=[a-z]))(?=\S)", r"\1<wbr>", str(escape(text))))  # noqa: S704 - escaped


def anchor(name: str) -> str:
    """Anchor of the section of a table or figure."""
    return name.replace(".", "-")


def spoken(name: str) -> str:
    """``table-5.6`` as text for people.

    >>> spoken("table-5.6")
    'Table 5.6'
    """
    return name.replace("-", " ").capitalize()
