"""L10 chapter 5: ISEQ over intervals, naive, indexed, and with interval begin punctuations."""

from slackwater.paper import Paper, Reproduction
from slackwater.scenarios.papers.l10.ch5 import figures

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
    "Naive: every interval in the stack of a step is tested. Basic indexing: stacks in order of "
    "ends, for the longest chain of ends. IBP: starts are in order as well. Depth-first search in "
    "all three; the paper's naive way is a join of whole stacks. The indexed ways drop on the fly "
    "and by cascades what has no chain of end points below it."
)
_COST = (
    "Time of the processor in the chain, in four calls, the least of several passes that take "
    "turns; what the IBPs cost that arrive and are heard is in it. Memory: intervals that the "
    "operator holds, read 40 times in a pass."
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
        reproductions={name: Reproduction(*of) for name, of in _ENTRIES.items()},
    )
