"""Windows whose borders are the silences of a group."""
