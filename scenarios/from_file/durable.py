"""When a live engine emits results: it reads the log's frames once they are written.

A frame is closed ``frame_every`` after its first record, or earlier if it is full, and at the
latest when the next one begins. Disk and engine then take ``answers_after``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slackwater.log import LogReader


class Durable:
    """Emission times for ``log``, whose gateway closes frames after ``frame_every_ns``."""

    def __init__(self, log: Path, frame_every_ns: int, answers_after_ns: int) -> None:
        self._after_ns = answers_after_ns
        spans: dict[str, list[tuple[int, int]]] = {}
        for site, first, last in LogReader(log).spans():
            spans.setdefault(site, []).append((first, last))
        self._of = {
            site: _closed(np.array(site_spans), frame_every_ns)
            for site, site_spans in spans.items()
        }

    def since(self, site: str, at_ns: int) -> int:
        """When a result decided at ``at_ns`` is emitted; after the log's last record: at once."""
        if site not in self._of:
            return at_ns
        last, closed = self._of[site]
        place = int(np.searchsorted(last, at_ns))
        return at_ns if place == len(last) else max(int(closed[place]) + self._after_ns, at_ns)


def _closed(spans: np.ndarray, frame_every_ns: int) -> tuple[np.ndarray, np.ndarray]:
    """Last record of each frame, and when it is written [ns]."""
    first, last = spans[:, 0], spans[:, 1]
    following = np.append(first[1:], np.iinfo(np.int64).max)
    return last, np.maximum(np.minimum(first + frame_every_ns, following), last)
