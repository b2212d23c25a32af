"""``follow``: the answers of a live server, as they arrive."""

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
    """Yield the existing answers in a live server's folder, then new ones as they arrive.

    Answers of one query and site are in order, including retractions (``op`` is ``-``). Not
    included are answers that only the end of the log would give, and those that the server's
    ``[answers]`` has removed: a ``SlackwaterWarning`` says how many bytes after ``positions`` were
    removed.

    Args:
        answers: the folder, such as ``site.log.answers``.
        query: name of a query; None: all, including new ones.
        site: name of a site; None: all.
        wait: wait for more answers; False: end after the existing ones.
        every: seconds between checks for new answers.
        positions: bytes read so far of each ``QUERY/SITE.jsonl`` and the closed files before it;
            updated here. Store it together with results derived from the answers, and pass it to
            the next call to continue there.

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
    """The files of answers that match, by name."""
    for of_query in sorted(folder.glob("[!.]*" if query is None else query)):
        files = site_files(of_query) if of_query.is_dir() else {}
        for name in sorted(files):
            if site is None or name == f"{site_file(site)}{SUFFIX}":
                yield files[name]


def _more(files: SiteFiles, name: str, read: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Yield the complete lines of ``files`` after those already read."""
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
