"""Make the demo data: of each set the predictions of two releases, and what then happened.

Writes data/SET/predictions.parquet and data/SET/outcomes.parquet, of all sets or of those named.
"""

import sys

from threadpoolctl import threadpool_limits

import flights
import weather
from files import DATA, write

SETS = {"flights": flights.make, "weather": weather.make}


def main(names):
    for name in names or SETS:
        for file in SETS[name]():
            write(DATA / name, file)


if __name__ == "__main__":
    # One thread, so that sums are taken in the same order on every machine.
    with threadpool_limits(1):
        main(sys.argv[1:])
