"""``model = "machine-room"`` of a scenario file: a device's readings of incidents of servers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from slackwater.scenario import NS_PER, UserError
from slackwater.scenarios.network_correlation.incidents import (
    Failures,
    Health,
    ServerIncident,
    Watch,
    plan_incidents,
    server_name,
)
from slackwater.simulation import Batch, Seeds, Span, StreamSchema

SEES_PACKETS, SEES_FAILURES = "packets", "failures"
SERVERS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class MachineRoom:
    """Fan and load of one server, ``SV-1``...; or odd packets or failures of all servers.

    Attributes:
        sees: a server, ``packets`` or ``failures``.
        servers: in the room.
        attacks: share of the incidents that begin with an attack, in [0, 1].
    """

    sees: str
    servers: int = 8
    attacks: float = 0.4

    def __post_init__(self) -> None:
        if not 1 <= self.servers <= SERVERS_MAX:
            raise UserError(f"servers: {self.servers} does not lie in 1..{SERVERS_MAX}")
        if not 0 <= self.attacks <= 1:
            raise UserError(f"attacks: {self.attacks} does not lie in 0..1")
        names = [server_name(number) for number in range(self.servers)]
        if self.sees not in {SEES_PACKETS, SEES_FAILURES, *names}:
            known = f"{SEES_PACKETS}, {SEES_FAILURES} or a server, {names[0]} to {names[-1]}"
            raise UserError(f"sees: {self.sees!r} is none of {known}")

    def streams(self) -> Sequence[StreamSchema]:
        """Streams of its readings."""
        return self._device(()).streams()

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        """As ``simulator.workload.Workload``."""
        incidents = incidents_of(seeds.root, span.length_ns, self.servers, self.attacks)
        return self._device(incidents).batches(span, seeds, source)

    def _device(self, incidents: tuple[ServerIncident, ...]) -> Health | Watch | Failures:
        if self.sees == SEES_PACKETS:
            return Watch(incidents)
        if self.sees == SEES_FAILURES:
            return Failures(incidents)
        return Health(self.sees, tuple(each for each in incidents if each.server == self.sees))


@lru_cache(maxsize=1)
def incidents_of(
    seed: int, length_ns: int, servers: int, attacks: float
) -> tuple[ServerIncident, ...]:
    """The incidents of a run; each device sees a part of them."""
    generator = Seeds(seed).generator("network-correlation/incidents")
    names = [server_name(number) for number in range(servers)]
    return plan_incidents(names, length_ns / NS_PER["s"], attacks, generator)
