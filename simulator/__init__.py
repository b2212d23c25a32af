"""Simulator: agents and gateway on virtual time, over simulated clocks and links."""
