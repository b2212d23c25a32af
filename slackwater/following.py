"""``follow``: the answers of a live server, as they come."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slackwater.engine.core.errors import UserError
from slackwater.engine.output.answer_files import SUFFIX, site_file


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
    them. What only the end of the log would give is not.

    Args:
        answers: the folder, such as ``site.log.answers``.
        query: name of a query; None: all, also those that are added.
        site: likewise.
        wait: for more; else it ends with what is there.
        every: seconds between two looks while nothing comes.
        positions: bytes read so far of each ``QUERY/SITE.jsonl``, which is kept up to date: store
            it with what you made of the answers, and give it to the next call to go on there.

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
    name = f"{'*' if site is None else site_file(site)}{SUFFIX}"
    while True:
        came = False
        for file in sorted(folder.glob(f"{'*' if query is None else query}/{name}")):
            for answer in _more(file, str(file.relative_to(folder)), read):
                came = True
                yield answer
        if not came:
            if not wait:
                return
            time.sleep(every)


def _more(file: Path, name: str, read: dict[str, int]) -> Iterator[dict[str, Any]]:
    """Whole lines of ``file`` behind what was read of it."""
    with file.open("rb") as lines:
        lines.seek(read.get(name, 0))
        for line in lines:
            if not line.endswith(b"\n"):
                return  # still being written
            try:
                answer = json.loads(line)
            except ValueError as error:
                at = read.get(name, 0)
                raise UserError(f"{file}: no answer at byte {at}: {error}") from error
            read[name] = read.get(name, 0) + len(line)
            yield answer
