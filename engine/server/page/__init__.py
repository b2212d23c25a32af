"""The live page of ``slackwater serve``, its metrics, and its access control."""
