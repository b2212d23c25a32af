"""The live page of ``slackwater serve``, its metrics, and who may see them."""
