"""L10 chapter 5: ISEQ over intervals, naive, indexed, and with interval begin punctuations."""
