"""Published evaluations, reproduced: one folder per paper, exposing ``paper() -> Paper``.

See ``slackwater.paper`` for the contract and ``slackwater paper`` for the command.
"""
