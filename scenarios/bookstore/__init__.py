"""A bookshop with RFID readers at shelves, counters and exits; thefts are known as truth."""

from slackwater.scenarios.bookstore.bookstore import Bookstore

__all__ = ["Bookstore", "scenario"]


def scenario() -> Bookstore:
    """What ``slackwater run bookstore`` runs."""
    return Bookstore()
