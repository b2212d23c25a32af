"""Results are checked against rules and against their own history before they go out (Z10 5.2).

A result that disagrees is held for a while, and then goes out marked, or not at all. One that is
taken back while it is held never shows. ``Judging`` is what a chain does after its operators.
"""

from slackwater.engine.operators.check.judging import Judging

__all__ = ["Judging"]
