"""Sockets, files and clocks of ``slackwater validate``: they measure, and change nothing."""
