"""Sinks: deliver the answers of a server, or of ``slackwater query``, to other programs."""
