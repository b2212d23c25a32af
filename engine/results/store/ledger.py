"""What a pass has written: the files of every batch and their sizes, in a file per batch.

A host that goes on where it was cut off does not write again what is committed. Should a part be
gone or changed since, the results would lack it without a word; so the ledger is looked at first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec import Struct

from engine.errors import UserError
from engine.log.whole_file import whole_file

WRITTEN: Final = "written"
END: Final = 999_999_999_999
"""Batch of what only the end of the input gives: after all others, replaced by each later end."""


class Ledger(Struct, frozen=True):
    """Of the pass that writes into ``directory``."""

    directory: Path

    def enter(self, batch_id: int, files: Iterable[Path], *, ends: bool = False) -> None:
        """Batch ``batch_id`` is these files of the directory, all complete.

        Args:
            batch_id: micro-batch, or ``END``.
            files: that the batch has written.
            ends: an input ended in it, so there is a batch ``END``, too.
        """
        sizes = {str(path.relative_to(self.directory)): path.stat().st_size for path in files}
        page = self._page(batch_id)
        page.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(page) as sink:
            sink.write(json.dumps({"ends": ends, "files": sizes}).encode())

    def check(self, batches: int) -> None:
        """The first ``batches`` batches, and the end if it was among them, are all there.

        Raises:
            UserError: names the part that is not as it was written, and what to do.
        """
        ended = [self._check(batch_id) for batch_id in range(batches)]
        if any(ended):
            self._check(END)

    def _check(self, batch_id: int) -> bool:
        """Whether an input ended in it."""
        page = self._page(batch_id)
        try:
            entry = json.loads(page.read_bytes())
            sizes, ends = dict(entry["files"]), bool(entry["ends"])
        except FileNotFoundError:
            raise self._refused(page, "is gone") from None
        except (ValueError, KeyError, TypeError) as error:
            raise self._refused(page, "is damaged") from error
        for name, size in sizes.items():
            path = self.directory / name
            if not path.is_file():
                raise self._refused(path, "is gone")
            if path.stat().st_size != size:
                raise self._refused(path, "has changed")
        return ends

    def _page(self, batch_id: int) -> Path:
        return self.directory / WRITTEN / f"batch-{batch_id:012d}.json"

    def _refused(self, path: Path, what: str) -> UserError:
        return UserError(
            f"{path}: {what}, but this run has written it: restore it, or remove "
            f"{self.directory} to begin the run anew"
        )
