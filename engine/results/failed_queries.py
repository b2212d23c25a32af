"""Queries that have failed at a site, in files beside their answers: ``QUERY/SITE.failed.json``.

Such a query gives no more answers about that site, also after a restart, as what it failed at is in
the log. It is tried again from the log's beginning when its file is removed, and by another version
of the program; with other queries or settings an engine starts from scratch anyway.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Final

from edge_agent.errors import one_line
from engine.log.whole_file import whole_file
from engine.query_failures import QueryFailure
from engine.results.answer_lines import AnswersDamaged, site_file

SUFFIX: Final = ".failed.json"
_SAID: Final = 5
Failed = dict[str, str]
"""``site``, ``query``, ``reason``, and the ``version`` of the program."""


class FailedQueries:
    """Of the answers in ``folder``.

    Args:
        folder: a folder for each query in it.
        queries: names of those that are answered.
        known: what ``state`` returned; None: start from scratch.
        again: whether answers can be made from the log's beginning.
        tell: takes a line for people.
        changed: takes all that have failed, at once and whenever there are more.

    Raises:
        AnswersDamaged: one is to be tried again, and for that all answers made again.
    """

    def __init__(
        self, folder: Path, queries: Collection[str], known: Sequence[Failed] | None, *,
        again: bool, tell: Callable[[str], None], changed: Callable[[list[Failed]], None],
    ) -> None:  # fmt: skip
        self._folder = folder
        self._tell = tell
        self._changed = changed
        self._version = version("slackwater")
        self._failed = {(each["query"], each["site"]): each for each in known or ()}
        expected = {self._path(*key) for key in self._failed}
        for query in queries:  # what was not saved is found out once more
            for path in {*(folder / query).glob(f"*{SUFFIX}")} - expected:
                path.unlink()
        for key, failed in self._failed.items():
            path = self._path(*key)
            is_gone = not path.exists()
            if again and (is_gone or failed["version"] != self._version):
                raise AnswersDamaged(f"query {key[0]} failed at site {key[1]!r} and is tried again")
            if is_gone:
                self._write(path, failed)
                tell(
                    f"query {key[0]} cannot be tried again at site {key[1]!r}, as the oldest files "
                    f"of the log were retired: move {folder} away, and all answers begin behind "
                    "them"
                )
        for (query, site), failed in list(self._failed.items())[:_SAID]:
            tell(f"query {query} is set aside at site {site!r}: {_first_line(failed['reason'])}")
        if len(self._failed) > _SAID:
            tell(f"{len(self._failed) - _SAID} more are set aside, which *{SUFFIX} files tell")
        changed(self.state())

    def add(self, site: str, failures: Sequence[QueryFailure]) -> None:
        """These queries have failed at ``site``; harmless when that is known.

        Raises:
            OSError: their files cannot be written; the same call may be made again.
        """
        for failure in failures:
            key = (failure.query, site)
            if key in self._failed:
                continue
            failed = {
                "site": site, "query": failure.query, "reason": failure.reason,
                "version": self._version,
            }  # fmt: skip
            path = self._path(*key)
            self._write(path, failed)
            self._failed[key] = failed
            if failure.trace:
                self._tell(_indented(failure.trace))
            self._tell(
                f"query {failure.query} has failed at site {site!r} and is set aside there: "
                f"{_first_line(failure.reason)}; all other answers go on. When the cause is gone, "
                f"remove {path} and start again"
            )
            self._changed(self.state())

    def at_end(self, site: str, failures: Sequence[QueryFailure]) -> None:
        """These queries would fail at the end of the log, which goes on."""
        for failure in failures:
            if failure.trace:
                self._tell(_indented(failure.trace))
            self._tell(
                f"query {failure.query} at site {site!r}: what the log's end would give is not "
                f"written: {_first_line(failure.reason)}"
            )

    def state(self) -> list[Failed]:
        """The failures, for the saved state and the live page."""
        return list(self._failed.values())

    def _path(self, query: str, site: str) -> Path:
        return self._folder / query / f"{site_file(site)}{SUFFIX}"

    def _write(self, path: Path, failed: Failed) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as sink:
            sink.write(json.dumps(failed, indent=1, ensure_ascii=False).encode())


def _first_line(reason: str) -> str:
    return one_line(reason.partition("\n")[0])


def _indented(trace: str) -> str:
    """A traceback, which may quote what devices sent: none of its lines looks like one of ours."""
    return "\n".join(f"  {one_line(line)}" for line in trace.splitlines())
