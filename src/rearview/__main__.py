"""`python -m rearview` is the `rearview` command."""

import sys

from rearview.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
