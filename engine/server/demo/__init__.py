"""``slackwater serve --demo``: a shop whose three readers have wrong clocks, on this machine."""
