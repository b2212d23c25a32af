"""R19: Rajendran 2019, ordering by sequence numbers against K-slack (chapter 5)."""

from slackwater.paper import Paper, Reproduction
from slackwater.scenarios.papers.r19 import (
    aq_variants,
    code_units,
    many_sources,
    offsets,
    pattern,
    single_figures,
    single_source,
    windows,
)
from slackwater.scenarios.papers.r19.verdicts import summary

_DATA = (
    "Generated in the shape of DEBS 2013's football events (40 sensors, 15,200 events a "
    "second), with exactly the published numbers of events and of events out of order. The paper "
    "gives the delays' means and maxima in words and pictures; ours follow a truncated Pareto "
    "distribution that fits them. A source's events travel 0.1 ms, and late ones longer."
)
_NAMES = (
    "Sequence as printed: the paper's algorithm with its settings (timeout of Eq 3.11, latency "
    "threshold 500 ms, smoothing 0.6, late events passed on). The claims are judged by this one. "
    "Sequence, its author's code: what the program does that its author published "
    "(timeout=r19-code:ps; the page R19 of the documentation lists how it differs). It takes the "
    "ps between two events of this data for ms, so that it waits for the threshold. Each claim is "
    "judged by it too. "
    "Our default learns how long to wait from late events too, and drops the rest. AQ-K-slack: the "
    "paper prints no settings but the attribute; the claims are judged by what the public text of "
    "the extension that it ran does by default (per batch of 10,000 events, kp 0.5, kd 0.8; "
    "scenarios/papers/r19/aq_extension.py). aq-kslack, ours: our order of that name, for the "
    "window of 10 s of the paper's query. aq-settings shows what other settings change."
)
_LATENCY = (
    "Release less arrival, the waiting that ordering adds. The paper counts from the "
    "instant its client sends, and its client sends late events late: with events 750 ms late, a "
    "mean maximum of 11 ms (Table 5.4) cannot contain their delay. Times from the true departure "
    "stand beside it. Computing time is not in ours, while the paper's contains its prototype's "
    "queues: no slack that follows delays of 30 s at most can hold events for the 62 s in the "
    "mean that it prints for MP-K-slack."
)
_ACCURACY = (
    "As in the paper's 5.2.2: of the events that were injected out of order, the share that is not "
    "left so, where one is left out of order if the event just before it has a larger time (in "
    "Table 5.10 a larger whole ms, as the paper's clocks count). How many come after any later "
    "event, and what was dropped or passed on late, stands beside each accuracy; the paper does "
    "not count them."
)
_ENTRIES = {
    "table-5.2": ("Data sets and their events out of order", single_source.data_sets),
    "table-5.4": ("Latency, data set 1", single_source.latency_of_set_1),
    "figure-5.6": ("Latency of sequence over data set 1", single_figures.sequence_over_time),
    "figure-5.7": ("Latency of all three over data set 1", single_figures.approaches_over_time),
    "table-5.5": ("Events left out of order, data set 1", single_source.accuracy_of_set_1),
    "table-5.6": ("Mean latency by data set", single_source.latency_of_sets),
    "figure-5.8": ("Mean latency by data set, drawn", single_figures.latency_bars),
    "table-5.7": ("Accuracy by data set", single_source.accuracy_of_sets),
    "figure-5.9": ("Events left out of order by data set", single_figures.left_bars),
    "aq-settings": ("What AQ-K-slack's unprinted settings change", aq_variants.settings),
    "code-units": ("What the unit of event times changes in the author's code", code_units.units),
    "table-5.8": ("Mean latency with 1 to 20 sources", many_sources.latency),
    "figure-5.10": ("Mean latency with 1 to 20 sources, drawn", many_sources.latency_lines),
    "figure-5.11": ("Latency of sequence with 1 to 20 sources", many_sources.sequence_line),
    "table-5.9": ("Accuracy with 1 to 20 sources", many_sources.accuracy),
    "figure-5.12": ("Events left out of order with 1 to 20 sources", many_sources.left_lines),
    "table-5.10": ("A clock that is off, without and with sync", offsets.with_and_without_sync),
    "figure-5.13": ("Events left out of order by clock offset", offsets.left_by_offset),
    "table-5.11": ("Window averages under clock error", windows.one_window),
    "table-5.12": ("Window averages from three windows", windows.three_windows),
    "figure-5.14": ("One window against three", windows.differences),
    "table-5.13": ("A pattern whose order the sync gets wrong", pattern.detected),
}


def paper() -> Paper:
    """The evaluation of R19, in the order of its text."""
    return Paper(
        title="R19: sequence numbers against K-slack",
        citation="S. Rajendran, Complex Event Processing over Out-of-Order Event Streams, thesis, "
        "University of Moratuwa 2019, chapter 5",
        setting={
            "data": _DATA,
            "approaches": _NAMES,
            "latency": _LATENCY,
            "accuracy": _ACCURACY,
        },
        summary=summary,
        reproductions={name: Reproduction(*of) for name, of in _ENTRIES.items()},
    )
