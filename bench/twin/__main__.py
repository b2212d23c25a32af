"""``python -m bench.twin``."""

import sys

from bench.twin.proof import main

if __name__ == "__main__":
    sys.exit(main())
