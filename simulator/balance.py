"""The path of every event of a run, and the sums that must balance.

An independent check, made after every simulation. The sums, in events:

* device: generated + made (intervals) = accepted + refused by the agent + forgotten at a restart
  + abstracted (readings that intervals stand for) + not yet polled;
* each link: what entered and was copied = what left, was lost, cut off or dropped;
* network: what left the links = delivered + arrived on a closed connection + still under way;
* gateway: delivered = logged + already known (resent or copied) + refused + unheard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from slackwater.engine.core.errors import ContractViolation
from slackwater.simulator.links import LinkCounts

LINK_FIELDS = (
    "entered", "left", "copied", "lost", "cut", "queue_dropped", "retransmitted", "queue_waited",
)  # fmt: skip


@dataclass(slots=True)
class Account:
    """Events of one source, or of all; ``missing`` and ``refused`` follow from the others.

    Attributes:
        generated: events that happened on the device.
        made: intervals from interval abstraction.
        abstracted: readings that are not sent, because intervals replace them.
        accepted: events numbered by the agent.
        refused_by_agent: by reason (``full``...).
        forgotten: lost at a restart before they were polled.
        not_polled: the run ended before the agent polled them.
        up: links to the gateway, summed over the pool; a resent message enters again.
        closed: left a link after its connection was closed.
        under_way: still in a link at the end.
        delivered: given to the gateway.
        known: delivered, but logged before (resent or copied).
        refused_by_gateway: invalid content.
        unheard: in messages for which the gateway closed the connection.
        logged: in the arrival log.
    """

    generated: int = 0
    made: int = 0
    abstracted: int = 0
    accepted: int = 0
    refused_by_agent: Counter[str] = field(default_factory=Counter)
    forgotten: int = 0
    not_polled: int = 0
    up: LinkCounts = field(default_factory=LinkCounts)
    closed: int = 0
    under_way: int = 0
    delivered: int = 0
    known: int = 0
    refused_by_gateway: int = 0
    unheard: int = 0
    logged: int = 0

    @property
    def missing(self) -> int:
        """Events that the agent numbered and that were never logged."""
        return self.accepted - self.logged

    def add(self, other: Account) -> None:
        """Add the numbers of another source."""
        for name in ("generated", "made", "abstracted", "accepted", "forgotten", "not_polled",
                     "closed", "under_way", "delivered", "known", "refused_by_gateway", "unheard",
                     "logged"):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.refused_by_agent.update(other.refused_by_agent)
        add_links(self.up, [other.up])

    def problems(self) -> list[str]:
        """The sums that do not balance, as texts."""
        refused = self.refused_by_agent.total()
        sums = {
            "generated + made = accepted + refused + forgotten + abstracted + not polled": (
                self.generated + self.made,
                self.accepted + refused + self.forgotten + self.abstracted + self.not_polled,
            ),
            "entered + copied = left + lost + cut + queue dropped": (
                self.up.balance()[1],
                0,
            ),
            "left = delivered + closed + under way": (
                self.up.left.events,
                self.delivered + self.closed + self.under_way,
            ),
            "delivered = logged + known + refused + unheard": (
                self.delivered,
                self.logged + self.known + self.refused_by_gateway + self.unheard,
            ),
            "logged <= accepted": (max(self.logged - self.accepted, 0), 0),
        }
        return [
            f"{text}: {left} against {right}"
            for text, (left, right) in sums.items()
            if left != right
        ]

    def plain(self) -> dict[str, Any]:
        """The account as plain data for the manifest; links in events and messages."""
        links = {name: getattr(self.up, name) for name in LINK_FIELDS}
        return {
            "generated": self.generated,
            "made": self.made,
            "abstracted": self.abstracted,
            "accepted": self.accepted,
            "refused_by_agent": dict(sorted(self.refused_by_agent.items())),
            "forgotten": self.forgotten,
            "not_polled": self.not_polled,
            "link_events": {name: tally.events for name, tally in links.items()},
            "link_messages": {name: tally.messages for name, tally in links.items()},
            "closed": self.closed,
            "under_way": self.under_way,
            "delivered": self.delivered,
            "known": self.known,
            "refused_by_gateway": self.refused_by_gateway,
            "unheard": self.unheard,
            "logged": self.logged,
            "missing": self.missing,
        }


def add_links(total: LinkCounts, links: Iterable[LinkCounts]) -> None:
    """Add the counts of ``links`` to ``total``."""
    for each in links:
        for name in LINK_FIELDS:
            sums, other = getattr(total, name), getattr(each, name)
            sums.messages += other.messages
            sums.events += other.events


def check_balance(accounts: dict[str, Account]) -> None:
    """Check all sums of every source.

    Raises:
        ContractViolation: a sum does not balance, which is a programming error.
    """
    problems = [f"{name}: {text}" for name, each in accounts.items() for text in each.problems()]
    if problems:
        raise ContractViolation("the simulation's sums do not balance: " + "; ".join(problems))
