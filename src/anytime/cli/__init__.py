"""The ``anytime`` command: from a table and a price list to a model that can be interrupted, without writing Python.

Each command is one small file; what they share is ``io`` (reading tables, models, prices), ``tables`` and ``plot`` (what is
printed) and ``errors``. Whatever takes long to import is imported inside the commands, so that ``anytime --help`` is there at
once.
"""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the ``anytime`` command and exit."""
    try:
        from anytime.cli.app import app

        app(prog_name="anytime")
    except KeyboardInterrupt:  # while things are still being imported; later, errors.Commands sees it
        print("\nanytime: error: interrupted", file=sys.stderr)
        sys.exit(130)
