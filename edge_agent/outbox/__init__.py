"""The durable outbox: events lie on the device's disk from when they are read until they are acked.

Events are fsynced before they are sent. So a number never names two events: events that the disk
forgets were never sent.
"""
