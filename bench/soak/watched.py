"""Memory and open files of a process over time, and whether they stay constant."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import median

PAGE_KB = 4
GROWTH_MAX = 0.05
"""Of memory, from the middle of the run to its end, by its slope."""
GROWTH_KB = 2_048
"""So much may come and go (buffers, allocator)."""
PIECES = 16
OPEN_MORE = 2
"""Files that may be open at the end and were not in the middle."""


@dataclass
class ProcessWatch:
    """One process, looked at now and then.

    Attributes:
        name: for people.
        pid: of the process.
        at: seconds since the start, of each look.
        kb: resident memory [KiB] at each.
        files: open file descriptors at each.
    """

    name: str
    pid: int
    at: list[float] = field(default_factory=list)
    kb: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def look(self, at: float) -> None:
        """Adds a look; none of a process that has ended."""
        folder = Path(f"/proc/{self.pid}")
        try:
            pages = int((folder / "statm").read_text().split()[1])
            files = len(list((folder / "fd").iterdir()))
        except (FileNotFoundError, ProcessLookupError):
            return
        self.at.append(at)
        self.kb.append(pages * PAGE_KB)
        self.files.append(files)

    def halves(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Median memory and files of the third quarter of the looks, and of the fourth."""
        half, last = len(self.at) // 2, len(self.at) * 3 // 4
        middle, end = slice(half, last), slice(last, None)
        return (
            (median(self.kb[middle]), median(self.files[middle])),
            (median(self.kb[end]), median(self.files[end])),
        )

    def slope(self) -> float:
        """Of memory over the second half of the looks [KiB/s]: the median of the slopes between
        medians of its sixteenths (Theil and Sen), which a peak now and then does not move.
        """
        half = len(self.at) // 2
        size = max(1, (len(self.at) - half) // PIECES)
        starts = range(half, len(self.at) - size + 1, size)
        medians = [
            (median(self.at[start : start + size]), median(self.kb[start : start + size]))
            for start in starts
        ]
        slopes = [
            (kb - before) / (at - earlier)
            for (earlier, before), (at, kb) in combinations(medians, 2)
        ]
        return median(slopes) if slopes else 0.0

    def verdict(self) -> str:
        """In words, for people."""
        (kb, files), (kb_end, files_end) = self.halves()
        how = "grows" if self.grows() else "flat"
        return (
            f"{self.name:8} {kb / 1024:7.1f} -> {kb_end / 1024:7.1f} MB, "
            f"{self.slope() * 3600 / 1024:+7.1f} MB/h, {files:.0f} -> {files_end:.0f} files: {how}"
        )

    def grows(self) -> list[str]:
        """Growth of memory or files; the first half is for warming up."""
        (kb, files), (_, files_end) = self.halves()
        found = []
        more = self.slope() * (self.at[-1] - self.at[len(self.at) // 2]) if self.at else 0.0
        if more > kb * GROWTH_MAX + GROWTH_KB:
            found.append(
                f"{self.name}: memory grows by {more / 1024:.1f} MB over the second half, "
                f"{self.slope() * 3600 / 1024:.1f} MB/h"
            )
        if files_end > files + OPEN_MORE:
            found.append(f"{self.name}: open files grow from {files:.0f} to {files_end:.0f}")
        return found


def family(pid: int) -> list[int]:
    """The children of a process, theirs, and so on; one that has just ended has none."""
    children: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in Path(f"/proc/{pid}/task").glob("*/children"):
            children.extend(map(int, thread.read_text().split()))
    return [*children, *(other for each in children for other in family(each))]


def command(pid: int) -> str:
    """Program of a process, in one word."""
    return Path(f"/proc/{pid}/comm").read_text().strip()
