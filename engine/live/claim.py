"""Whose answers are in a folder: to which query, asked how, over which log.

A name stands for one query with one set of settings. A query more needs nothing but a new name;
what was answered under a name is never mixed with answers to something else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from engine.errors import UserError
from engine.log.files.log_files import file_mark
from engine.log.whole_file import whole_file

QUERY_FILE: Final = "query.json"
_LOG: Final = "log"


def claim(answers: Path, log: Path, of_each: Mapping[str, Mapping[str, Any]]) -> None:
    """The folders of these queries in ``answers`` are for their answers over ``log``.

    Args:
        answers: folder with one for each query.
        log: the arrival log, which has a file.
        of_each: by a query's name, all that its answers depend on beside the log.

    Raises:
        UserError: one has answers to something else, or over another log; says what to do.
        OSError: it cannot be written.
    """
    check_claim(answers, log, of_each)
    for name, mine in of_each.items():
        path = answers / name / QUERY_FILE
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file(path) as sink:
                content = json.dumps(
                    {**mine, _LOG: file_mark(log, 1)}, indent=1, ensure_ascii=False
                )
                sink.write(content.encode())


def check_claim(answers: Path, log: Path, of_each: Mapping[str, Mapping[str, Any]]) -> None:
    """Whether ``claim`` would be refused.

    Raises:
        UserError: it would.
    """
    for name, mine in of_each.items():
        folder = answers / name
        known = _read(folder / QUERY_FILE)
        if not known:
            continue
        first = known.pop(_LOG, None)
        other = sorted(key for key in {*known, *mine} if known.get(key) != mine.get(key))
        if not other and first != file_mark(log, 1):
            other = [_LOG]
        if other:
            raise UserError(
                f"query {name}: {folder} has answers with another {' and '.join(other)}: give the "
                "query another name, or move that folder away; then its answers are made anew "
                "from the log"
            )


def _read(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_bytes()))
    except ValueError as error:
        raise UserError(
            f"{path}: damaged: move {path.parent} away; then its answers are made anew from the log"
        ) from error
