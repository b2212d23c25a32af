"""The source information store (R19 3.2.2, Figure 4.1): what is known of each source's clock."""

from __future__ import annotations

from dataclasses import dataclass

from edge_agent.messages import Sync


@dataclass(frozen=True, slots=True)
class SourceClock:
    """The newest time-sync report of one source.

    ``offset_ns``: engine's clock minus source's, positive = the source is slow; it and
    ``delay_ns`` are None when the source was never synchronised. ``measured_at_ns`` is at the
    source's clock, ``stored_at_ns`` on the arrival clock.
    """

    incarnation: int
    offset_ns: int | None
    delay_ns: int | None
    measured_at_ns: int
    stored_at_ns: int
    precision_ns: int
    skew_error_ppb: int


class SourceStore:
    """Newest report per site and source; as many as the gateway admits sources."""

    def __init__(self) -> None:
        self._sites: dict[str, dict[str, SourceClock]] = {}

    def put(self, site: str, source: str, incarnation: int, sync: Sync, at_ns: int) -> None:
        """``sync`` of ``source`` was recorded at arrival-clock instant ``at_ns``."""
        self._sites.setdefault(site, {})[source] = SourceClock(
            incarnation=incarnation,
            offset_ns=sync.offset,
            delay_ns=sync.delay,
            measured_at_ns=sync.measured_at,
            stored_at_ns=at_ns,
            precision_ns=sync.precision,
            skew_error_ppb=sync.skew_error_ppb,
        )

    def get(self, site: str, source: str) -> SourceClock | None:
        return self._sites.get(site, {}).get(source)

    def t_a_ns(self, site: str) -> int:
        """T_a: the largest filtered delay over the site's sources (R19 Eq 3.16); 0 if none."""
        known = self._sites.get(site, {}).values()
        return max((each.delay_ns for each in known if each.delay_ns is not None), default=0)
