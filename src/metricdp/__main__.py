"""Run the command line with ``python -m metricdp``."""

from metricdp.cli import main

if __name__ == "__main__":
    main()
