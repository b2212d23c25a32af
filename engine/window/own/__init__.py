"""Windows that go by the events of each group: what SESSION and ROWS share."""
