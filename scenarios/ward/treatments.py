"""Z10's treatment flow (Fig 1): a patient is asked, examined in three departments, and diagnosed.

An hour of the ward takes a second here. Each department files an exam some time after its end, so
they come in another order than they happened; the network is as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from slackwater.scenario import NS_PER
from slackwater.simulation import (
    START_NS,
    Batch,
    ClockSettings,
    GatewayPlace,
    LinkSettings,
    Lognormal,
    Scenario,
    Seeds,
    SourceSettings,
    Span,
    StreamSchema,
)

SECOND: Final = NS_PER["s"]
MS: Final = NS_PER["ms"]
HOUR_NS: Final = SECOND
WARM_UP_NS: Final = 5 * SECOND
WITHIN_NS: Final = 6 * 24 * HOUR_NS
"""Six days."""
STREAM: Final = "treatments"
CONSULT, ECG, CT, BLOOD, DIAGNOSIS = "CONSULT", "ECG", "CT", "BLOOD", "DIAGNOSIS"
DEPARTMENTS: Final = {
    "doctor": (CONSULT, DIAGNOSIS), "ecg": (ECG,), "ct": (CT,), "laboratory": (BLOOD,),
}  # fmt: skip
_LINK: Final = LinkSettings(
    delay=Lognormal(median_ns=10 * MS, sigma=1.0, min_ns=2 * MS), reliable=True
)


@dataclass(frozen=True, slots=True)
class Treatment:
    """One interval of a patient: true times, price, and time of filing."""

    type: str
    patient: int
    start_ns: int
    end_ns: int
    price: int
    filed_ns: int


def plan_treatments(
    patients: int, hours: float, start_ns: int, generator: np.random.Generator
) -> tuple[Treatment, ...]:
    """Some patients are diagnosed before an exam is over, some after all of them, some never."""
    found: list[Treatment] = []

    def do(type_: str, patient: int, at: float, length: float) -> float:
        late = generator.lognormal(0.5, 1.0)
        begin, end = (start_ns + round(hour * HOUR_NS) for hour in (at, at + length))
        price = int(generator.integers(50, 500))
        found.append(Treatment(type_, patient, begin, end, price, end + round(late * HOUR_NS)))
        return at + length

    for patient in range(patients):
        begin = generator.uniform(0, hours)
        consult_end = do(CONSULT, patient, begin, generator.uniform(0.3, 1))
        exams = [
            do(name, patient, consult_end + generator.uniform(0.5, 20), generator.uniform(1, 30))
            for name in (ECG, CT, BLOOD)
            if generator.random() < 0.9
        ]
        if exams and generator.random() < 0.9:
            # The diagnosis is begun around the end of the first exam, or of the last one.
            near = min(exams) if generator.random() < 0.6 else max(exams)
            do(DIAGNOSIS, patient, max(near - generator.uniform(-1, 3), consult_end),
               generator.uniform(2, 40))  # fmt: skip
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Department:
    """The treatments of one department, in the order in which they are filed."""

    treatments: tuple[Treatment, ...] = field(repr=False)

    def streams(self) -> Sequence[StreamSchema]:
        return (StreamSchema(STREAM, {"patient": "int", "price": "int"}),)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        del span, seeds, source
        filed = sorted(self.treatments, key=lambda each: (each.filed_ns, each.patient))
        for type_ in sorted({each.type for each in filed}):
            mine = [each for each in filed if each.type == type_]

            def column(name: str, mine: Sequence[Treatment] = mine) -> np.ndarray:
                return np.array([getattr(each, name) for each in mine], np.int64)

            values = {"patient": column("patient"), "price": column("price")}
            yield Batch(
                STREAM, column("start_ns"), type_, values, end_ns=column("end_ns"),
                truth=dict(values), known_ns=column("filed_ns"),
            )  # fmt: skip


def ward_scenario(seed: int, patients: int, hours: float, offset_ns: int) -> Scenario:
    """Departments that file ``patients`` patients' treatments within some ``hours``."""
    seeds = Seeds(seed)
    treatments = plan_treatments(
        patients, hours, START_NS + WARM_UP_NS, seeds.generator("ward/treatments")
    )
    generator = seeds.generator("ward/clocks")
    sources = []
    for name, types in DEPARTMENTS.items():
        offset, skew = generator.uniform(-1, 1, 2).tolist()
        sources.append(
            SourceSettings(
                name=name,
                workload=Department(tuple(each for each in treatments if each.type in types)),
                clock=ClockSettings(
                    offset_ns=round(offset * offset_ns), skew_ppb=round(skew * 20_000)
                ),
                up=_LINK, down=_LINK, heartbeat_ns=0,
            )
        )  # fmt: skip
    last_ns = max((each.filed_ns for each in treatments), default=START_NS + WARM_UP_NS)
    return Scenario(
        name="ward", seed=seed, duration_ns=last_ns - START_NS - WARM_UP_NS + SECOND,
        sources=tuple(sources), gateway=GatewayPlace(frame_every_ns=SECOND, tick_every_ns=SECOND),
        warm_up_ns=WARM_UP_NS, drain_ns=30 * SECOND,
    )  # fmt: skip
