"""Windows of so many events of a group."""
