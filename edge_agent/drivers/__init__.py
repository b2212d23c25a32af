"""Drivers of the agent's cores on a device: asyncio, clocks, files, sockets, random numbers."""
