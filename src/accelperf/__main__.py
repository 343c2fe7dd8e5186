"""Lets ``python -m accelperf`` stand for the command ``accelperf``."""

from accelperf.cli import main

if __name__ == "__main__":
    main()
