"""Measurements of ``slackwater validate``: sockets, files and clocks, read without changes."""
