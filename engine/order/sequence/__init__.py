"""The order ``sequence``: lanes by number, timeouts, and the merge over all of a site."""
