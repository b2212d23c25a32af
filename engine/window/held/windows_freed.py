"""Windows that can be corrected no more leave memory."""

from __future__ import annotations

from engine.kernels.jit import kernel
from engine.kernels.records import NONE
from engine.window.emitted import EmittedResults, forget_emitted
from engine.window.held.accumulate import clear
from engine.window.held.cells import free_window
from engine.window.held.content import Held
from engine.window.held.kept import forget


@kernel
def free_upto(last: int, held: Held, standing: EmittedResults) -> None:
    """Free the windows up to ``last``: their cells, kept events and emitted results."""
    cells = held.cells
    place = cells.tally[0].headers - 1
    while place >= 0:  # what takes the place of a freed one was looked at before
        header = cells.headers[place]
        if cells.window[header] <= last:
            forget_emitted(cells, standing, header)
            leader = cells.link[header]
            while leader != NONE:
                forget_emitted(cells, standing, leader)
                forget(held.kept, cells, leader)
                cell = leader
                while cell != NONE:
                    clear(held.sums, cell)
                    cell = cells.down[cell]
                leader = cells.link[leader]
            free_window(cells, header)
        place -= 1
