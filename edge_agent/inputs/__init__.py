"""Where an agent's events come from: each input is one file here and one line in ``registry``."""
