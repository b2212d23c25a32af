"""L09: Liu et al. 2009, sequence queries with negation over disorder (chapter IX)."""

from slackwater.paper import Paper, Reproduction
from slackwater.scenarios.papers.l09 import (
    aggressive,
    comparison,
    conservative,
    disk,
    slack,
    window_state,
)
from slackwater.scenarios.papers.verdicts import decided

_DATA = (
    "Generated as the paper's event generator does it: ten types from A to J, as many of each, "
    "each from a source of its own that sends one in every slot of 1.25 time units, anywhere in "
    "it; window 20 time units; events out of order come up to 10 late, every delay as likely. The "
    "share that is out of order is exact, and what is late at a smaller "
    "share is as late at a larger one, so that curves differ by disorder alone. The paper does not "
    "say how many events there are, nor how many per time unit. Ours are 3,000 (queries of length "
    "6 and 7) to 40,000 (3) at 8 per time unit, about the least at which each longer query has "
    "more results and more compensation tuples than the shorter one, as its text says of its own. "
    "Figure 12 has 30,000 at 4 per time unit, and Figure 15 has 2,000."
)
_SHARES = (
    "Positive events out of order: share of the positive types' events. The paper divides by all "
    "events, but of ten equal types a query of length 3 has three positive ones, and 50 % of all "
    "events cannot be theirs. Negative ones: share of C's events, as in the paper."
)
_STRATEGIES = (
    "Aggressive: no order before the query, results at once, taken back when a late C comes. "
    "Conservative: no order, results held until promises (the paper's POGs) about C close them, "
    "and state purged by promises alone (its Algorithms 1 and 2); the others purge by the window, "
    "aggressive also by the longest delay. "
    "K-slack: order kslack:K with K the longest delay, then the query. A source promises up to "
    "now, or up to its oldest event on its way, so that no promise is ever broken; promises are "
    "evenly spread over the events, in rounds of all types in random order."
)
_LATENCY = (
    "As in the paper: from the arrival of the event that makes a result (or compensation) leave "
    "until it leaves, summed, per result that stands. Waiting is counted on the arrival clock and "
    "is the same in every run. Computing is measured as CPU time of the chain, spread evenly "
    "over the records of a call. In a slow stream a record's own is all that computing adds; for "
    "Figures 15 and 16 a server takes the records one after another at a stated rate. What the end "
    "of the input lets go is left out."
)
_DISK = (
    "Figure 15: aggressive, and what lies more than a window back is in files, a chunk for every "
    "5 time units. A late event that needs one waits for others of its chunk, up to the threshold, "
    "or for 10 time units. The paper names neither a size of its pages nor a rate; ours is the "
    "fastest that computing can follow with every threshold, and slower and faster ones stand "
    "beside. Files are in the machine's cache, so input and output is mostly computing."
)
_NUMBERS = (
    "The paper's figures are curves without printed numbers, so claims are those of its text. "
    "Where it says grows or flat, the numbers name the bound of our verdict."
)
_ENTRIES = {
    "fig-4": ("Latency of aggressive by positive events out of order", aggressive.positive_latency),
    "fig-5": ("Latency of aggressive by negative events out of order", aggressive.negative_latency),
    "fig-6": ("Compensation tuples", aggressive.compensation),
    "fig-7": ("Execution time by positive events out of order", aggressive.positive_execution),
    "fig-8": ("Execution time by negative events out of order", aggressive.negative_execution),
    "fig-9": ("State of aggressive by window", window_state.state),
    "fig-10": ("State of conservative by promises", conservative.state),
    "fig-11": ("Overhead of conservative on events in order", conservative.overhead),
    "fig-12": ("Latency of conservative by events out of order", conservative.latency),
    "fig-13": ("Latency of K-slack by events out of order", slack.latency),
    "fig-14": ("Execution time of K-slack by events out of order", slack.execution),
    "fig-15": ("State on disk: latency by threshold", disk.thresholds),
    "fig-16": ("Latency of all three strategies", comparison.all_methods),
}


def paper() -> Paper:
    """The evaluation of L09, in the order of its figures."""
    return Paper(
        title="L09: sequence queries over disorder, aggressive and conservative",
        citation="M. Liu, M. Li, D. Golovnya, E. A. Rundensteiner, K. Claypool, Sequence Pattern "
        "Query Processing over Out-of-Order Event Streams, ICDE 2009, section IX",
        setting={
            "data": _DATA,
            "shares": _SHARES,
            "strategies": _STRATEGIES,
            "latency": _LATENCY,
            "disk": _DISK,
            "claims": _NUMBERS,
        },
        reproductions={
            name: Reproduction(title, decided(make)) for name, (title, make) in _ENTRIES.items()
        },
        sizes="our own sizes (the paper prints none)",
    )
