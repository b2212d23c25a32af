"""The path of every event, and whether the sums balance: from device to released stream.

Two independent sources are compared: the counters of agent, network, gateway and engine (manifest,
``counters.json``), and the rows of the files (truth, ordered stream). An equation is evaluated per
source and in total, if all its terms are known: recordings have no data from before their log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from slackwater.edge_agent.records import CLOCK
from slackwater.engine.apps.report.measure.events import (
    LANE,
    NUMBER,
    RunRows,
    TrueTimes,
    ordered_rows,
    quantiles,
    read_rows,
    rows_by_clock,
)
from slackwater.engine.apps.report.numbers import (
    BEFORE,
    BEFORE_EQUATIONS,
    LANE_COUNTERS,
    LINK_TERMS,
    PASS_EQUATIONS,
    Equation,
)
from slackwater.engine.core.released import IN_ORDER, LATE_DROPPED

Counts = dict[str, int]
WORST_SHOWN: Final = 5
_NULL: Final = "(none)"


def measure_conservation(
    manifest: Mapping[str, Any],
    truth: Path,
    passes: Mapping[str, tuple[Path, Mapping[str, Any]]],
) -> dict[str, Any]:
    """The table and its equations.

    Args:
        manifest: of the run; ``events_by_source`` by source (over all sites) or by site/source.
        truth: folder with ``events.parquet``; may be missing.
        passes: label -> (folder of the pass, its ``counters.json``).

    Returns:
        ``by`` (``source`` or ``site/source``), ``before`` and per label ``passes``, each with
        ``total`` and ``sources`` (name -> term -> events), ``equations`` and ``balanced``.
    """
    accounts = manifest.get("events_by_source") or {}
    names = {lane["source"] for _, counters in passes.values() for _, lane in _lanes(counters)}
    with_site = not accounts or not set(accounts) & names
    before = {name: _account(account) for name, account in accounts.items()}
    _count_truth(before, truth, with_site)
    equations = _evaluate(BEFORE_EQUATIONS, before, None)
    found: dict[str, Any] = {}
    for label, (directory, counters) in passes.items():
        by_source = _pass_counts(directory, counters, with_site)
        for name in before:
            by_source.setdefault(name, _no_events())
        found[label] = {"total": _total(by_source), "sources": by_source}
        both = {name: before.get(name, {}) | counts for name, counts in by_source.items()}
        equations += _evaluate(PASS_EQUATIONS, both, label)
        equations.append(_records(counters, found[label]["total"]["arrived"], label))
    return {
        "by": "site/source" if with_site else "source",
        "before": {"total": _total(before), "sources": before},
        "passes": found,
        "equations": equations,
        "balanced": all(each["balanced"] for each in equations),
    }


def _lanes(counters: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
    for site, of_site in counters["sites"].items():
        for lane in of_site["lanes"]:
            yield site, lane


def _no_events() -> Counts:
    return dict.fromkeys((*LANE_COUNTERS, "released", "dropped_rows", "missing"), 0)


def _account(account: Mapping[str, Any] | int) -> Counts:
    """Counts of one source from the manifest: an account (``simulator.balance.Account.plain``) or,
    for recordings, only the number of logged events.
    """
    if isinstance(account, int):
        return {"logged": account}
    known: dict[str, Any] = {**account, "never_logged": account.get("missing")}
    if "generated" in known:  # runs of older versions have no intervals
        known = {"made": 0, "abstracted": 0, **known}
    refused = account.get("refused_by_agent")
    if isinstance(refused, Mapping):
        known["refused_by_agent"] = sum(refused.values())
    links = account.get("link_events") or {}
    known |= {name: links[name] for name in LINK_TERMS if name in links}
    return {term.key: int(known[term.key]) for term in BEFORE if known.get(term.key) is not None}


def _count_truth(before: dict[str, Counts], truth: Path, with_site: bool) -> None:
    """Add ``truth_rows`` to each source in the truth."""
    path = truth / "events.parquet"
    if not path.is_file() or not any("generated" in counts for counts in before.values()):
        return
    rows_by_source: Counter[str] = Counter()
    for (site, source), mine in read_rows([path], ("site", "source")).groups("site", "source"):
        rows_by_source[f"{site}/{source}" if with_site else source] += int(mine.size)
    for name in {*before, *rows_by_source}:
        before.setdefault(name, {})["truth_rows"] = rows_by_source[name]


def _pass_counts(
    directory: Path, counters: Mapping[str, Any], with_site: bool
) -> dict[str, Counts]:
    by_source: dict[str, Counts] = {}
    for site, lane in _lanes(counters):
        source = lane["source"] if lane["source"] is not None else _NULL
        mine = by_source.setdefault(f"{site}/{source}" if with_site else source, _no_events())
        for name in LANE_COUNTERS:
            mine[name] += int(lane.get(name, 0))
    rows = ordered_rows(directory, ("site", "source", "status"))
    for (site, source), of_source in rows.groups("site", "source"):
        mine = by_source.setdefault(f"{site}/{source}" if with_site else source, _no_events())
        dropped = int(np.count_nonzero(rows["status"][of_source] == LATE_DROPPED))
        mine["released"] += int(of_source.size) - dropped
        mine["dropped_rows"] += dropped
    for mine in by_source.values():
        mine["missing"] = mine["missing_total"] - mine["missing_filled"]
    return dict(sorted(by_source.items()))


def _total(by_source: Mapping[str, Counts]) -> Counts:
    """Sums of the terms; terms that are unknown for some source are omitted."""
    known = set.intersection(*(set(each) for each in by_source.values())) if by_source else set()
    first = next(iter(by_source.values()), {})
    return {key: sum(each[key] for each in by_source.values()) for key in first if key in known}


def _evaluate(
    equations: Iterable[Equation], by_source: Mapping[str, Counts], label: str | None
) -> list[dict[str, Any]]:
    """Each equation with its total sums, and the sources that are most off."""
    found = []
    for equation in equations:
        sums = {name: equation.sums(counts) for name, counts in by_source.items()}
        known = {name: pair for name, pair in sums.items() if pair is not None}
        if not known:
            continue
        off = {name: equation.off(*pair) for name, pair in known.items()}
        left, right = (sum(pair[side] for pair in known.values()) for side in (0, 1))
        wrong = sorted((name for name in off if off[name]), key=lambda name: -abs(off[name]))
        found.append(
            {
                "pass": label,
                "text": equation.text,
                "left": left,
                "right": right,
                "off": sum(off.values()),
                "at_most": equation.at_most,
                "balanced": not wrong,
                "sources": len(known),
                "wrong": len(wrong),
                "worst": [{"source": name, "off": off[name]} for name in wrong[:WORST_SHOWN]],
            }
        )
    return found


def _records(counters: Mapping[str, Any], arrived: int, label: str) -> dict[str, Any]:
    """Events among the records that the chains read, and events that their lanes counted."""
    read = sum(site["records"].get("event", 0) for site in counters["sites"].values())
    return {
        "pass": label,
        "text": "event records read = arrived",
        "left": read,
        "right": arrived,
        "off": read - arrived,
        "at_most": False,
        "balanced": read == arrived,
        "sources": 1,
        "wrong": int(read != arrived),
        "worst": [],
    }


# A run in slices of time: events that happened and arrived, lateness, and differences of clocks.
#
# Slices cover the first to the last event, so that none at the ends is empty. If the truth is
# known, an event belongs to the slice in which it happened, so that per slice happened = arrived +
# missing; otherwise to the slice of its ref.


SLICES: Final = 60
SOURCES_SHOWN: Final = 40
_STEPS: Final = (1, 2, 5)
_COLUMNS: Final = (*LANE, *NUMBER, CLOCK, "ts", "ref", "unc", "arrival", "status")


def measure_over_time(directory: Path, truth: Path) -> dict[str, Any]:
    """``reconciled``, ``lateness`` and ``clocks`` of one pass; each None without data.

    Args:
        directory: of the pass.
        truth: folder with ``events.parquet``; may be missing.

    Returns:
        ``reconciled``: ``starts_ns width_ns`` and, per slice, ``in_place late dropped`` of arrived
        events, and ``happened`` (None without truth). ``lateness``: ``at_ns before_ns after_ns``,
        the largest per slice, on arrival and as released. ``clocks``: per clock (``sources``)
        ``at_ns apart_ns`` (clock minus the engine's, as corrected) and ``bound_ns``; ``spread_ns``:
        largest difference of two clocks (including the engine's) at one time; ``bound_ns``
        quantiles.
    """
    rows = ordered_rows(directory, _COLUMNS)
    if not len(rows):
        return {"reconciled": None, "lateness": None, "clocks": None}
    lanes = TrueTimes(truth) if (truth / "events.parquet").is_file() else None
    return {
        "reconciled": _reconciled(rows, lanes),
        "lateness": _lateness(rows),
        "clocks": _clocks(rows),
    }


def _reconciled(rows: RunRows, truth: TrueTimes | None) -> dict[str, Any]:
    at, status, happened = rows["ref"], rows["status"], None
    if truth is not None:
        true_ns, known = truth.of(rows)
        at, status = truth.engine_reads(true_ns[known]), status[known]
        happened = truth.engine_reads(truth.numbered)
    every = at if happened is None else np.concatenate((at, happened))
    if not every.size:
        return {"starts_ns": [], "width_ns": 1}
    first, width, count = _grid(int(every.min()), int(every.max()))
    kinds = {
        "in_place": status == IN_ORDER,
        "dropped": status == LATE_DROPPED,
        "late": (status != IN_ORDER) & (status != LATE_DROPPED),
    }
    histograms = {
        name: np.bincount((at[of] - first) // width, minlength=count).tolist()
        for name, of in kinds.items()
    }
    all_of = None
    if happened is not None:
        all_of = np.bincount((happened - first) // width, minlength=count).tolist()
    starts = [first + place * width for place in range(count)]
    return {"starts_ns": starts, "width_ns": width, **histograms, "happened": all_of}


def _grid(low: int, high: int) -> tuple[int, int, int]:
    """First start, width and number of slices: round widths, and none without events at the ends.

    Slices begin at the first event, so that none is cut.
    """
    least = max((high - low) // SLICES, 1)
    digits = 10 ** (len(str(least)) - 1)
    width = next(digits * step for step in (*_STEPS, 10) if digits * step >= least)
    return low, width, (high - low) // width + 1


def _lateness(rows: RunRows) -> dict[str, Any]:
    """Lateness by ref: on arrival, and in the order of release."""
    at = rows["arrival"]
    first, width, count = _grid(int(at.min()), int(at.max()))
    before = np.zeros(count, np.int64)
    after = np.zeros(count, np.int64)
    for _, mine in rows.groups("site"):
        # Events of one arrival count as in order, as in the measure of disorder.
        arrived = mine[np.lexsort((rows["ref"][mine], at[mine]))]
        released = mine[rows["status"][mine] != LATE_DROPPED]
        for into, order in ((before, arrived), (after, released)):
            times = rows["ref"][order]
            late = np.maximum.accumulate(times) - times if times.size else times
            np.maximum.at(into, (at[order] - first) // width, late)
    return {
        "at_ns": [first + place * width for place in range(count)],
        "before_ns": before.tolist(),
        "after_ns": after.tolist(),
    }


def _clocks(rows: RunRows) -> dict[str, Any] | None:
    """Differences of the clocks; None if no time was corrected."""
    apart = rows["ts"] - rows["ref"]
    if not apart.any():
        return None
    at = rows["ref"]
    low, length = int(at.min()), int(at.max()) - int(at.min()) + 1
    place = (at - low) * SLICES // length if length < 2**56 else (at - low) // (length // SLICES)
    every = np.arange(int(place.max()) + 1)
    ahead, behind = np.zeros(len(every), np.int64), np.zeros(len(every), np.int64)
    sources = {}
    for name, of in rows_by_clock(rows).items():
        mine = of[np.argsort(place[of], kind="stable")]
        slices, starts = np.unique(place[mine], return_index=True)
        chosen = mine[starts]
        sources[name] = {
            "at_ns": at[chosen].tolist(),
            "apart_ns": apart[chosen].tolist(),
            "bound_ns": rows["unc"][chosen].tolist(),
        }
        latest = np.maximum(np.searchsorted(slices, every, "right") - 1, 0)
        ahead = np.maximum(ahead, apart[chosen][latest])
        behind = np.minimum(behind, apart[chosen][latest])
    order = np.argsort(place, kind="stable")
    slices, starts = np.unique(place[order], return_index=True)
    furthest = sorted(sources, key=lambda name: -max(map(abs, sources[name]["apart_ns"])))
    return {
        "spread_ns": int((ahead - behind).max()),
        "bound_ns": quantiles(np.sort(rows["unc"])),
        "sources": {name: sources[name] for name in sorted(furthest[:SOURCES_SHOWN])},
        "count": len(sources),
        "widest": {
            "place": slices.tolist(),
            "at_ns": np.minimum.reduceat(at[order], starts).tolist(),
            "bound_ns": np.maximum.reduceat(rows["unc"][order], starts).tolist(),
        },
    }
