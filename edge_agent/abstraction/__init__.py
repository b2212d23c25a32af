"""Interval abstraction at the edge (L10 5.4): from readings to intervals, before anything is sent.

``settings`` says what is made of which stream, ``labels`` which state a reading shows, ``machine``
where intervals begin and end; ``journal`` keeps the open ones beside an outbox.
"""
