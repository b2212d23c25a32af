"""The plan of a pattern under a constraint."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from engine.query.regular import Regular

if TYPE_CHECKING:
    from engine.query.plan import Attribute, OrPlan, SeqPlan, Step, WindowPlan


class MonitorPlan(Struct, frozen=True):
    """``EVENT pattern UNDER CONSTRAINT constraint FOR TRACE BY trace ... AS expression``.

    What ``expression`` says of every trace, the events with one value of ``trace``, tells before
    ``pattern`` is complete whether it will be, or never will (SPEC 4.6). A trace of which nothing
    came for ``timeout_ns`` is over; None: it is not.
    """

    name: str
    text: str
    pattern: SeqPlan | OrPlan
    constraint: str
    trace: Attribute
    expression: Regular
    timeout_ns: int | None = None

    result_kind: ClassVar[str] = "alerts"
    steps: ClassVar[tuple[Step, ...]] = ()
    branches: ClassVar[tuple[SeqPlan, ...]] = ()
    streams: ClassVar[tuple[str, ...]] = ()
    windows: ClassVar[tuple[WindowPlan, ...]] = ()
    realtime: ClassVar[None] = None

    @property
    def by_types(self) -> bool:
        """Whether types and conditions on single events decide that there is a match.

        Else they decide only that there is none: WITHIN or a condition between steps may fail.
        """
        return all(
            branch.within_ns is None
            and not branch.others
            and not branch.relations
            and all(
                {each.name for each in group} == {self.trace.name} for group in branch.equalities
            )
            for branch in self.pattern.branches
        )


def without_room(plan: object) -> list[str]:
    """What the constraint of a monitored ``plan`` leaves no room for; nothing of other plans.

    Raises:
        UserError: the constraint and the pattern make no automaton.
    """
    if not isinstance(plan, MonitorPlan):
        return []
    from engine.query.automata.excluded import excluded  # noqa: PLC0415 - few queries need it

    return excluded(plan)
