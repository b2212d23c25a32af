"""Answers that keep coming: chains over an arrival log that grows, for weeks, through restarts."""
