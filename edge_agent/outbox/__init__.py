"""The durable outbox: keeps events on the device's disk from when they are read until acked.

Events are fsynced before they are sent. A number therefore never names two different events: an
event that the disk loses before its fsync was never sent.
"""
