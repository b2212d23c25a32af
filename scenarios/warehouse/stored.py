"""``model = "cold-store"`` of a scenario file: the readings of one device of a zone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from slackwater.scenario import UserError
from slackwater.scenarios.warehouse.world import Climate, Pallet, PalletReader, plan_pallets
from slackwater.simulation import Batch, Seeds, Span, StreamSchema

CLIMATE_SENSOR, READER = "climate", "reader"
ZONES_MAX: Final = 26
PALLETS_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class StoreDevice:
    """The sensor of a zone, ``A`` to ``Z``: of temperature and humidity, or a reader of pallets.

    Attributes:
        zone: of the device.
        sensor: ``climate`` or ``reader``.
        zones: of the store; pallets stand in any of them.
        pallets: that pass through the store.
    """

    zone: str
    sensor: str
    zones: int = 4
    pallets: int = 100

    def __post_init__(self) -> None:
        if not 1 <= self.zones <= ZONES_MAX:
            raise UserError(f"zones: {self.zones} does not lie in 1..{ZONES_MAX}")
        names = [zone_name(number) for number in range(self.zones)]
        if self.zone not in names:
            raise UserError(f"zone: {self.zone!r} is none of {', '.join(names)}")
        if self.sensor not in {CLIMATE_SENSOR, READER}:
            raise UserError(f"sensor: {self.sensor!r} is neither {CLIMATE_SENSOR} nor {READER}")
        if not 0 <= self.pallets <= PALLETS_MAX:
            raise UserError(f"pallets: {self.pallets} does not lie in 0..{PALLETS_MAX}")

    def streams(self) -> Sequence[StreamSchema]:
        """Streams of its readings."""
        return self._device(()).streams()

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        """As ``simulator.workload.Workload``."""
        pallets = pallets_of(seeds.root, span, self.zones, self.pallets)
        return self._device(pallets).batches(span, seeds, source)

    def _device(self, pallets: tuple[Pallet, ...]) -> Climate | PalletReader:
        if self.sensor == CLIMATE_SENSOR:
            return Climate(self.zone)
        return PalletReader(ord(self.zone) - ord("A"), self.zone, pallets)


def zone_name(number: int) -> str:
    """Of the zone: ``A``, ``B``..."""
    return chr(ord("A") + number)


@lru_cache(maxsize=1)
def pallets_of(seed: int, span: Span, zones: int, count: int) -> tuple[Pallet, ...]:
    """The pallets of a run, which all readers may meet."""
    return plan_pallets(count, zones, span, Seeds(seed).generator("warehouse/pallets"))
