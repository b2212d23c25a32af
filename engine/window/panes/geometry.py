"""Where panes lie: the pieces of time that no window of a query starts or ends in.

Source: Krishnamurthy, Wu & Franklin 2006 (paired windows): if the slide divides the size, a pane is
a slide; else every slide is cut once, where windows end.
"""

from __future__ import annotations

from engine.kernels.jit import inline
from engine.window.drift import Geometry


@inline
def pane_of(geo: Geometry, time: int) -> int:
    """The pane with ``time`` [ns]."""
    slide, rest = time // geo.step, geo.size % geo.step
    if rest == 0:
        return slide
    return 2 * slide + (time - slide * geo.step >= rest)


@inline
def pane_start(geo: Geometry, pane: int) -> int:
    """Where ``pane`` starts [ns]."""
    rest = geo.size % geo.step
    if rest == 0:
        return pane * geo.step
    return (pane >> 1) * geo.step + (pane & 1) * rest
