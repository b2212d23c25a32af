"""Interval abstraction at the edge (L10 5.4): readings become intervals before they are sent.

``settings`` has the settings of an abstraction, ``machine`` finds the begins and ends of intervals,
and ``stored_state`` converts open intervals for the journal next to an outbox.
"""
