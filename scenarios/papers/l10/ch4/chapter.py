"""L10 chapter 4: sequence queries over events out of order, on active instance stacks."""

from slackwater.paper import Paper, Reproduction
from slackwater.scenarios.papers.l10.ch4 import ais_clock, overhead, partition
from slackwater.scenarios.papers.verdicts import decided

_DATA = (
    "Generated: an event at every unit of time, of one of six types drawn at random. The wanted "
    "share is out of order exactly, each such event by K at most. The query is SEQ(A, B, C, D, E, "
    "F) within 20 units. The paper gives the sizes, the window and the shares 90 %, 30 % and 0 %; "
    "rates and K are ours."
)
_MATCHER = (
    "Every claim is judged by the paper's operator, Algorithms 6 to 9, as one kernel of ours whose "
    "parts can be left out (scenarios/papers/l10/ch4/sequence_scan.py); it finds the matches that "
    "our matcher finds. Figures 4.10 and 4.11 say beside what our matcher does over the stream as "
    "it arrives (order none), purged by the window plus K (Algorithm 9), with the partition off "
    "and on. It finds a match depth first and hands it on; nothing between stacks and matches is "
    "kept."
)
_COST = (
    "Figures 4.8 and 4.11 are judged by counted work, 4.10 by counted sequences, which no machine "
    "changes. Else: time of the processor, not of the clock on the wall: the least of several "
    "passes that take turns. It differs from machine to machine. Gain: "
    "the share that an option saves; from one point to the next it may fall by less than 1 "
    "percentage point and still rises."
)
_ENTRIES = {
    "figure-4.8": ("CPU cost with and without AIS-CLOCK", ais_clock.ais_clock),
    "figure-4.9": ("Overhead of handling disorder on ordered input", overhead.overhead),
    "figure-4.10": ("Memory saved by the partition of the stacks", partition.memory),
    "figure-4.11": ("CPU cost saved by the partition of the stacks", partition.processor),
}


def chapter() -> Paper:
    """The evaluation of L10 4.6."""
    return Paper(
        title="L10 chapter 4: stacks for events out of order",
        citation="M. Li, Robust Complex Event Pattern Detection over Streams, dissertation, "
        "Worcester Polytechnic Institute 2010, chapter 4",
        setting={"data": _DATA, "matcher": _MATCHER, "cost": _COST},
        reproductions={
            name: Reproduction(title, decided(make)) for name, (title, make) in _ENTRIES.items()
        },
    )
