"""The files of an arrival log: which they are, whether they are whole, and which are kept."""
