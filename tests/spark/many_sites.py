"""Small worlds of many sites, each with sources that come and go and keys that rotate."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from slackwater.engine.core.frame import Frame
from slackwater.engine.log.arrival_log import LogWriter


@dataclass(frozen=True, slots=True)
class World:
    """``at_once`` sources of a site in turn; each is followed by a new one after ``life`` events,
    ``turns`` events in all places. A key is used for ``key_life`` turns.

    ``lost``, ``swapped``: share of the events that never come, that come after their neighbour.
    """

    sites: int = 1
    at_once: int = 2
    life: int = 4
    turns: int = 20
    key_life: int = 4
    lost: float = 0.0
    swapped: float = 0.0
    seed: int = 0

    def frames(self, rows: int) -> Iterator[Frame]:
        """Each site in turn sends so many rows; one that lost all of them sends none."""
        all_rows = {f"site-{site:03d}": self._rows(site) for site in range(self.sites)}
        left = {site: rows for site, rows in all_rows.items() if rows}
        while left:
            for site in list(left):
                some, left[site] = left[site][:rows], left[site][rows:]
                yield frame(site, some)
                if not left[site]:
                    del left[site]

    def _rows(self, site: int) -> list[tuple[str, int, str, int, int, int]]:
        rng = random.Random(f"{self.seed} {site}")
        found = []
        for turn in range(self.turns):
            for place in range(self.at_once):
                life, seq = divmod(turn + place % self.life, self.life)
                ts = 10 * turn + place % 10
                row = (f"s{place}.{life}", seq, rng.choice("AB"), ts, turn // self.key_life)
                if rng.random() >= self.lost:
                    found.append(row)
        for i in range(1, len(found)):
            if rng.random() < self.swapped:
                found[i - 1], found[i] = found[i], found[i - 1]
        now, rows = 0, []
        for source, seq, kind, ts, key in found:
            now = max(now, ts + 1)
            rows.append((source, seq, kind, ts, now, key))
        return rows

    def write(
        self, folder: Path, rows: int, *, rows_per_file: int = 1 << 20, only: str = ""
    ) -> Path:
        """The log of all sites, or of one."""
        with LogWriter(folder, rows_per_file) as writer:
            for each in self.frames(rows):
                if only in ("", each.site):
                    writer.append(each)
        return folder


def frame(site: str, rows: list[tuple[str, int, str, int, int, int]]) -> Frame:
    """``rows``: source, number, type, ts, arrival, key."""
    source, seq, kind, ts, arrival, key = (list(column) for column in zip(*rows, strict=True))
    texts = {"source": source, "type": kind}
    return Frame(
        site,
        pa.RecordBatch.from_pydict(
            {name: pa.array(column).dictionary_encode() for name, column in texts.items()}
            | {"seq": pa.array(seq), "ts": pa.array(ts), "arrival": pa.array(arrival)}
            | {"attrs.key": pa.array([f"k{each}" for each in key]).dictionary_encode()}
        ),
    )
