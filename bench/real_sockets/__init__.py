"""The testbed against real sockets: one set-up, run by real programs and by the simulator."""
