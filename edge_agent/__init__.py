"""Edge agent: numbers a device's events, synchronises its clock and speaks to a gateway.

Sans-IO: every class here is a plain state machine. Clock readings and bytes are handed
in, bytes and deadlines come out; asyncio drives them on devices, SimPy in simulation.
"""
