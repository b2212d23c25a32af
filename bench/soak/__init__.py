"""Agents and a gateway for a long time: memory and open files must stay as they are."""
