"""``follow``: the answers of a live server, as they come."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slackwater.engine.core.errors import UserError
from slackwater.engine.output.answer_files import site_file
from slackwater.engine.output.answer_retention import SUFFIX, SiteFiles, site_files
from slackwater.warning import SlackwaterWarning


def follow(
    answers: str | os.PathLike[str],
    query: str | None = None,
    site: str | None = None,
    *,
    wait: bool = True,
    every: float = 0.2,
    positions: dict[str, int] | None = None,
) -> Iterator[dict[str, Any]]:
    """The answers in a live server's folder, one at a time, and those that come.

    Those of one query and site are in their order; what is taken back (``op`` is ``-``) is among
    them. What only the end of the log would give is not, nor what the server's ``[answers]`` has
    removed: of what was removed behind ``positions`` a ``SlackwaterWarning`` says how much.

    Args:
        answers: the folder, such as ``site.log.answers``.
        query: name of a query; None: all, also those that are added.
        site: likewise.
        wait: for more; else it ends with what is there.
        every: seconds between two looks while nothing comes.
        positions: bytes read so far of each ``QUERY/SITE.jsonl`` and the closed files before it,
            which is kept up to date: store it with what you made of the answers, and give it to the
            next call to go on there.

    Raises:
        UserError: there is no such folder, or a line is no answer.
    """
    folder = Path(answers)
    if not folder.is_dir():
        raise UserError(
            f"{folder}: no folder of answers; the settings of the server say where it is "
            "([engine] answers, or the log's name with .answers)"
        )
    read = {} if positions is None else positions
    while True:
        came = False
        for files in _found(folder, query, site):
            for answer in _more(files, str(files.path.relative_to(folder)), read):
                came = True
                yield answer
        if not came:
            if not wait:
                return
            time.sleep(every)


def _found(folder: Path, query: str | None, site: str | None) -> Iterator[SiteFiles]:
    """What there is of them, by name."""
    for of_query in sorted(folder.glob("[!.]*" if query is None else query)):
        files = site_files(of_query) if of_query.is_dir() else {}
        for name in sorted(files):
            if site is None or name == f"{site_file(site)}{SUFFIX}":
                yield files[name]


def _more(files: SiteFiles, name: str, read: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Whole lines of ``files`` behind what was read of them."""
    while read.get(name, 0) < files.end and (opened := files.open_at(read.get(name, 0))):
        lines, begin = opened
        with lines:
            at = max(read.get(name, 0), begin)
            if name in read and read[name] < begin:
                lost = f"{begin - read[name]:,} bytes of answers in {name} were removed"
                said = f"{files.folder.parent}: {lost}, as [answers] says, before they were read"
                warnings.warn(said, SlackwaterWarning, stacklevel=2)
            lines.seek(at - begin)
            for line in lines:
                if not line.endswith(b"\n"):
                    return  # still being written
                try:
                    answer = json.loads(line)
                except ValueError as error:
                    raise UserError(
                        f"{lines.name}: no answer at byte {at - begin}: {error}"
                    ) from error
                at += len(line)
                read[name] = at
                yield answer
