"""Windows that end at gaps between the events of a group (SESSION)."""
