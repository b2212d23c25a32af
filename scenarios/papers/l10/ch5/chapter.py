"""L10 chapter 5: ISEQ over intervals, naive, indexed, and with interval begin punctuations."""

from slackwater.paper import Paper, Reproduction
from slackwater.scenarios.papers.l10.ch5 import figures
from slackwater.scenarios.papers.verdicts import decided

_DATA = (
    "Generated: 20 types, as many of each, window 30 s, lengths normally distributed (the paper "
    "prints no deviation: ours is a quarter of the mean). 4,000 intervals; by density 20,000, "
    "6,000 at 400 and 1,500 at 800; in order. The paper has 2 GB. A query of n steps relates n end "
    "points, first starts and then ends, as the one that the paper prints."
)
_WHERE = (
    "Without conditions a query of length 10 has some 30,000 matches per window at density 200 and "
    "10^9 at 800, and writing them would hide the search. The paper names no condition; ours asks "
    "that an attribute rises over the last five steps, and by density over all ten. Verdicts hold "
    "for these conditions."
)
_WAYS = (
    "Every claim is judged by the paper's operator (Algorithms 11 and 13), written as one kernel "
    "(scenarios/papers/l10/ch5/multi_join.py). Naive: a multi-join, in which every interval in the "
    "stack of a step is tested; the paper prints no order of joining, ours is that of the pattern, "
    "after the newest interval. Basic indexing: the ends in stacks with pointers, searched depth "
    "first, then the starts joined. IBP-incorporated: all in stacks. Beside it stands what our "
    "matcher does: depth first in all three ways, with what cannot match left as soon as that is "
    "known."
)
_COST = (
    "The paper's operator: time of the processor, the least of up to three passes, and intervals "
    "that it holds after each one. Our matcher: time in the chain, in four calls, the least of two "
    "passes that take turns, in which the IBPs that arrive and are heard are counted; intervals "
    "held are read 40 times in a pass."
)
_ENTRIES = {
    "figure-5.4": ("Memory by profile of the query", figures.types_memory),
    "figure-5.5": ("Time by profile of the query", figures.types_time),
    "figure-5.6": ("Memory by length of the query", figures.length_memory),
    "figure-5.7": ("Time by length of the query", figures.length_time),
    "figure-5.8": ("Memory by length of the intervals", figures.mean_memory),
    "figure-5.9": ("Time by length of the intervals", figures.mean_time),
    "figure-5.10": ("Memory by density", figures.density_memory),
    "figure-5.11": ("Time by density", figures.density_time),
}


def chapter() -> Paper:
    """The evaluation of L10 5.5."""
    return Paper(
        title="L10 chapter 5: interval events",
        citation="M. Li, Robust Complex Event Pattern Detection over Streams, dissertation, "
        "Worcester Polytechnic Institute 2010, chapter 5",
        setting={"data": _DATA, "condition": _WHERE, "ways": _WAYS, "cost": _COST},
        reproductions={
            name: Reproduction(title, decided(make)) for name, (title, make) in _ENTRIES.items()
        },
    )
