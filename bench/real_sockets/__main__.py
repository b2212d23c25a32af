"""``python -m bench.real_sockets``."""

import sys

from bench.real_sockets.both_worlds import main

if __name__ == "__main__":
    sys.exit(main())
