"""Interval abstraction at the edge (L10 5.4): readings become intervals before they are sent.

``settings`` has the abstraction of each stream, ``labels`` the state that a reading shows,
``machine`` the begins and ends of intervals; ``journal`` keeps open intervals next to an outbox.
"""
