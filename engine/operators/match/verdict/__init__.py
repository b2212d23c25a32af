"""What a combination of events is: a match, a doubt, and with which probability."""
