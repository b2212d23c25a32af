"""Settings of the intervals that an agent makes from one stream (SPEC 4.10), checked on
creation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.messages import NAME_MAX, StreamSchema
from slackwater.edge_agent.packing import check_name

BANDS: Final = "bands"
PRESENCE: Final = "presence"
STATES: Final = "states"
KINDS: Final = (BANDS, PRESENCE, STATES)
CUT: Final = "cut"
"""Attribute of an interval: why it ended before its state did; null: it ended naturally."""
READINGS: Final = "readings"
"""Attribute of an interval: number of its readings."""
PIECES_MAX: Final = 1000
"""Most pieces into which an interval is split between two readings."""
_SECOND: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class AbstractSettings:
    """One abstraction: the settings of an ``[[abstract]]`` table.

    Attributes:
        stream: whose readings are read.
        into: the stream of the intervals, which no input writes to.
        kind: ``bands`` of a number, ``presence`` of whatever is read, or runs of equal ``states``.
        by: attributes that tell one thing from another (a tag, a shelf); copied to its intervals.
        value: the attribute that has the number or the state.
        bands: names and the edges between them, as ``("LOW", 50, "MEDIUM", 100, "HIGH")``:
            LOW <= 50 < MEDIUM <= 100 < HIGH. A name is the type of its intervals.
        hysteresis: a band is left when the number has passed its edge by so much.
        type: of intervals of presence; what types of states begin with.
        only: types of events that are readings; others pass. Empty: all are.
        gap_ns: after so long without a reading an interval has ended at its last one; 0: never.
        min_ns: intervals shorter than this are not sent at all.
        max_ns: longer ones are split; 0: never.
        lag_ns: how long after it happened a reading is at hand, at most.
        clock_step_ns: a reading older by more than this than the one before shows that the clock
            was set back; one that is older by less is left out.
        begins: whether the begin of an interval is sent (IBP).
        keep: whether the readings are sent, too.
        keys_max: number of things that may have an open interval at once.
    """

    stream: str
    into: str
    kind: str
    by: tuple[str, ...] = ()
    value: str = ""
    bands: tuple[str | float, ...] = ()
    hysteresis: float = 0.0
    type: str = ""
    only: tuple[str, ...] = ()
    gap_ns: int = 0
    min_ns: int = 0
    max_ns: int = 0
    lag_ns: int = 0
    clock_step_ns: int = 10 * _SECOND
    begins: bool = True
    keep: bool = False
    keys_max: int = 100_000

    def __post_init__(self) -> None:
        """Raises SettingsError, whose message begins with the setting's name."""
        if self.kind not in KINDS:
            raise SettingsError(f"kind: {self.kind!r} is none of {', '.join(KINDS)}")
        check_name(self.into, "into")
        if self.into == self.stream:
            raise SettingsError("into: intervals have a stream of their own, not that of readings")
        self._check_times()
        if self.keys_max < 1:
            raise SettingsError("keys_max: must be at least 1")
        {BANDS: self._check_bands, PRESENCE: self._check_presence, STATES: self._check_states}[
            self.kind
        ]()
        if self.kind != BANDS and (self.bands or self.hysteresis):
            raise SettingsError(f"bands: {self.kind} has none, and no hysteresis")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the bands, from lowest to highest."""
        return tuple(str(name) for name in self.bands[::2])

    @property
    def edges(self) -> tuple[float, ...]:
        """Edges between bands; a number at an edge is in the band below it."""
        return tuple(edge for edge in self.bands[1::2] if not isinstance(edge, str))

    @property
    def silence_ns(self) -> int:
        """Silence by the monotonic clock after which an interval is ended; 0: never.

        Includes ``lag_ns``, because a reading may have happened in time and not have arrived yet.
        """
        return self.gap_ns + self.lag_ns if self.gap_ns else 0

    def schema(self, readings: StreamSchema) -> StreamSchema:
        """Schema of the stream ``into``.

        Raises:
            SettingsError: an attribute is not in ``readings``, or has the wrong type.
        """
        for name in (*self.by, *((self.value,) if self.value else ())):
            if name not in readings.attrs:
                known = ", ".join(readings.attrs) or "none"
                raise SettingsError(
                    f"{'by' if name in self.by else 'value'}: stream {readings.name} has no "
                    f"attribute {name}; it has: {known}"
                )
        for name in self.by:
            if readings.attrs[name] == "float":
                raise SettingsError(f"by: {name} is a float, which names nothing for sure")
        if self.kind == BANDS and readings.attrs[self.value] not in ("int", "float"):
            raise SettingsError(f"value: {self.value} is no number; bands are of int or float")
        return StreamSchema(
            self.into, {**{name: readings.attrs[name] for name in self.by}, CUT: "str",
                        READINGS: "int"},
        )  # fmt: skip

    def _check_times(self) -> None:
        for name in ("gap_ns", "min_ns", "max_ns", "lag_ns", "clock_step_ns"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name.removesuffix('_ns')}: must not be negative")
        if self.max_ns and not 0 < self.gap_ns <= PIECES_MAX * self.max_ns:
            raise SettingsError(
                f"max: needs a gap of at most {PIECES_MAX} times as much: what happened in a "
                "longer silence is not known"
            )
        if 0 < self.max_ns < self.min_ns:
            raise SettingsError("max: must not be below min")
        if self.lag_ns and not self.gap_ns:
            raise SettingsError("lag: is of no use without a gap")
        twice = {CUT, READINGS, *self.by}
        if len(set(self.by)) < len(self.by) or len(twice) < len(self.by) + 2:
            raise SettingsError(f"by: names must differ, also from {CUT} and {READINGS}")

    def _check_bands(self) -> None:
        if not self.value or self.type:
            raise SettingsError("value: bands need one; their types are their names")
        names, edges = self.bands[::2], self.bands[1::2]
        if len(self.bands) < 3 or len(self.bands) % 2 == 0:
            raise SettingsError('bands: write names and the edges between: ["LOW", 50, "HIGH"]')
        _check_names(names)
        for edge in edges:
            if isinstance(edge, bool) or not _is_finite(edge):
                raise SettingsError(f"bands: {edge!r} is no edge; write a number between two names")
        if any(low >= high for low, high in zip(self.edges, self.edges[1:], strict=False)):
            raise SettingsError("bands: edges must rise")
        if not 0 <= self.hysteresis < math.inf:
            raise SettingsError("hysteresis: must be a number, not negative")

    def _check_presence(self) -> None:
        if not self.gap_ns:
            raise SettingsError("gap: presence needs one: after how long it has ended")
        if self.value:
            raise SettingsError("value: presence reads none; name what is present in by")
        check_name(self.type, "type")

    def _check_states(self) -> None:
        if not self.value:
            raise SettingsError("value: states need one")
        if len(self.type) >= NAME_MAX:
            raise SettingsError(f"type: must be shorter than {NAME_MAX} characters")


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _check_names(names: Sequence[str | float]) -> None:
    for name in names:
        if not isinstance(name, str):
            raise SettingsError(f"bands: {name!r} stands where a name should")
        check_name(name, "bands")
    if len(set(names)) < len(names):
        raise SettingsError("bands: two have one name")
