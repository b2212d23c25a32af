"""The plan of a statement that reads the results of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from msgspec import Struct

from engine.query.check_plan import Checks, checks_of

if TYPE_CHECKING:
    from engine.query.plan import OwnPlan, Plan, SeqPlan, Step, WindowPlan


class DerivedPlan(Struct, frozen=True):
    """``plan`` asked of the results of ``sources``, which ``CREATE STREAM`` has named.

    Of the log it reads nothing itself: no stream, no type, no attribute. A source is another plan
    of the same pass, perhaps a derived one, too.
    """

    plan: OwnPlan
    sources: tuple[Plan, ...]

    steps: ClassVar[tuple[Step, ...]] = ()
    branches: ClassVar[tuple[SeqPlan, ...]] = ()
    streams: ClassVar[tuple[str, ...]] = ()
    windows: ClassVar[tuple[WindowPlan, ...]] = ()
    realtime: ClassVar[None] = None

    @property
    def name(self) -> str:
        """Of the statement."""
        return self.plan.name

    @property
    def text(self) -> str:
        """As it was written."""
        return self.plan.text

    @property
    def checks(self) -> Checks | None:
        """As of the plan that it asks."""
        return checks_of(self.plan)

    @property
    def result_kind(self) -> str:
        """As of the plan that it asks."""
        return self.plan.result_kind


def asked_plan(plan: Plan) -> OwnPlan:
    """What a statement asks, whatever it reads."""
    return plan.plan if isinstance(plan, DerivedPlan) else plan


def of_log(plans: tuple[Plan, ...]) -> tuple[Plan, ...]:
    """Those of ``plans`` that read the log itself."""
    return tuple(plan for plan in plans if not isinstance(plan, DerivedPlan))
