"""What ``slackwater validate`` measures of a device: cores without sockets, and what they found."""
