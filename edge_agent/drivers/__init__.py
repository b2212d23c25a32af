"""Drivers of the agent's cores on a device: asyncio, this machine's clocks and files, chance."""
