"""Runs the command line as `python -m farsteer`."""

import sys

from farsteer.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
