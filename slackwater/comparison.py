"""``compare``: which order suits a recording, and what each one costs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from slackwater.engine.apps.compare.comparison import COMPLETE, OrdersCompared
from slackwater.engine.apps.compare.comparison import compare as measure
from slackwater.engine.apps.compare.measure import Reading
from slackwater.engine.apps.compare.page import HTML, NO_ARRIVALS, as_plain, write_comparison
from slackwater.engine.apps.report.numbers import plain, versions
from slackwater.engine.core.clocks.choice import read_clock
from slackwater.engine.core.errors import need
from slackwater.engine.hosts.options import read_guards
from slackwater.engine.hosts.warnings import numbering_warnings
from slackwater.frames import AsFrames
from slackwater.inputs import Input, Source, opened
from slackwater.translate_options import translate_options
from slackwater.warning import warn


class Comparison(AsFrames):
    """Result of ``compare``. Iterating gives the numbers of each order as a dict.

    Attributes:
        numbers: all numbers, as in ``compare.json``, whose ``fields`` define them.
    """

    def __init__(self, measured: OrdersCompared, name: str) -> None:
        self.numbers: Mapping[str, Any] = plain(as_plain(measured, name, versions()))
        self._measured = measured
        self._name = name

    @property
    def suits(self) -> str | None:
        """The order that suits; None: none is complete enough."""
        found: str | None = self.numbers["verdict"]["suits"]
        return found

    @property
    def verdict(self) -> str:
        """The recommendation and its reason, in words."""
        said = self.numbers["verdict"]
        return f"{said['headline']} {said['reason']}"

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.numbers["orders"])

    def __len__(self) -> int:
        return len(self.numbers["orders"])

    def to_arrow(self) -> pa.Table:
        """One row per order; columns such as ``hold_ns.p99``."""
        table = pa.Table.from_pylist(list(self)).flatten()
        # A value that is null for every order, such as missing, still gets a numeric type.
        fields = [
            pa.field(each.name, pa.int64() if pa.types.is_null(each.type) else each.type)
            for each in table.schema
        ]
        return table.cast(pa.schema(fields))

    def write(self, out: str | os.PathLike[str]) -> Path:
        """Write ``compare.html`` and ``compare.json`` into the folder ``out``; return the page.

        Raises:
            SlackwaterError: plotly or Jinja2 is not installed.
            UserError: the folder holds other files.
        """
        need("report")
        write_comparison(self._measured, self._name, Path(out), "")
        return Path(out) / HTML

    def __repr__(self) -> str:
        return f"<slackwater.Comparison of {len(self)} orders; suits: {self.suits}>"


@translate_options
def compare(
    source: Source | Input,
    orders: str | Sequence[str] = (),
    *,
    sweep: str | None = None,
    complete: float = COMPLETE,
    truth: str | None = None,
    departed: str | None = None,
    guard: str = "1s",
    clock: str | Sequence[str] = (),
) -> Comparison:
    """Run each order over the same events: which one suits them, and what the others cost.

    Args:
        source: result of ``read``, or anything that ``read`` takes.
        orders: orders to compare, as ``["sequence", "kslack:1s"]``; none: the best of each kind.
        sweep: a range of slacks, as ``kslack:10ms..10s``, or ``measured`` (from the input's own
            lateness), shown on the page.
        complete: share of the events that must be in their place for an order to suit.
        truth: attribute with an event's true time [ns, engine's clock].
        departed: attribute with the instant at which the event left the source [ns, engine's
            clock].
        guard: events stamped this far beyond their arrival are quarantined; ``off``: never.
        clock: declarations of clocks without a sync, as in ``order``.

    >>> events = {"seq": [0, 2, 1], "ts": [10, 30, 20], "arrival": [11, 31, 32]}
    >>> compare(events, ["none", "sequence"]).suits
    'sequence'

    Raises:
        UserError: the input or an option is invalid.
    """
    with opened(source) as data:
        measured = measure(
            data.log,
            [orders] if isinstance(orders, str) else orders,
            sweep,
            Reading(truth, departed, read_clock(clock, data.time_unit)),
            read_guards(guard, data.time_unit),
            data.time_unit,
            complete,
        )
        warnings = numbering_warnings(data.counted_lanes)
    found = measured.arrivals
    unknown_arrivals = [] if measured.arrival_given else [NO_ARRIVALS]
    warn([*found.excluded, *warnings, *found.warnings, *unknown_arrivals])
    return Comparison(measured, data.name)
