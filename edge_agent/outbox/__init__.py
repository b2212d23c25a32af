"""The durable outbox: events lie on the device's disk from when they are read until they are acked.

What is sent was fsynced before. So a number never names two events, whatever the disk forgets:
what it forgot was never sent.
"""
