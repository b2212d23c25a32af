"""The gateway on real sockets: its core driven by asyncio and this machine's clock."""
