"""The command line: parse, call, print. Results go to standard output, progress and logs to standard error."""

from metricdp.cli.main import main

__all__ = ["main"]
