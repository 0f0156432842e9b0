"""``python -m jaxmkl``: the command ``jaxmkl``."""

import sys

from jaxmkl.cli import entry

if __name__ == "__main__":
    sys.exit(entry())
