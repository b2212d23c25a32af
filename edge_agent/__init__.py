"""Edge agent: numbers a device's events, synchronises its clock and talks to a gateway.

Sans-IO: every class here is a plain state machine. The caller passes clock readings and bytes, and
takes bytes and deadlines; the caller is asyncio on devices and SimPy in simulation.
"""
