"""A mobility engineer: from a raw file of GPS points to a private stream and a heat map, within budgets."""

import csv
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

import metricdp as mdp
from metricdp.budget import budget

PERSONS, POINTS_EACH, CELL = 40, 6, 0.005  # CELL in degrees

# the raw file: points near intersections of the centre, some metres off as GPS is, six a day for each person
centre = mdp.data.road("gothenburg").nearest((57.7047, 11.9663), 300)
random = np.random.default_rng(7)
morning = datetime(2026, 11, 18, 7, tzinfo=UTC)
with Path("gps.csv").open("w", encoding="utf-8", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["time", "person", "lat", "lon"])
    for turn in range(POINTS_EACH):
        for person in range(PERSONS):
            lat, lon = centre.coordinates[random.integers(centre.n)] + random.normal(0.0, 1e-4, 2)
            rows.writerow([morning + timedelta(hours=2 * turn), f"phone-{person:02d}", f"{lat:.6f}", f"{lon:.6f}"])

# plan: what should be promised, and what does it cost? the places are a public list, not the people's own
planned = mdp.plan(centre, within="200m", factor=4, reports="5/day", outputs=40)
print(planned)

# solve: to 5 %, which is enough for a heat map
result = mdp.solve(planned.problem, gap=0.05)
print(result.mechanism.certificate)
result.mechanism.save("city.mdp")

# stream: five reports of each person in any day, as planned; the sixth point of the day is left out
limit = str(budget(result.mechanism, 5))  # rounded up: 5 * epsilon in floats may be a little too small for five
people = ["--person", "person", "--limit", limit, "--window", "1d", "--over", "drop"]
snapping = ["--snap-limit", "0.1", "--far", "drop", "--fast-snap"]
command = [sys.executable, "-m", "metricdp", "perturb", "city.mdp", "-", *snapping, *people]
with Path("gps.csv").open("rb") as raw, Path("reports.csv").open("wb") as reports:
    done = subprocess.run(command, stdin=raw, stdout=reports, stderr=subprocess.PIPE, text=True, check=False)
print(done.stderr, end="")
if done.returncode:
    sys.exit(done.returncode)

# heat map: how many reports came from each part of the city; only reports are used from here on
with Path("reports.csv").open(encoding="utf-8", newline="") as file:
    seen = [(float(row["lat"]), float(row["lon"])) for row in csv.DictReader(file)]
counts = Counter((int(lat // CELL), int(lon // CELL)) for lat, lon in seen)
north, south = max(cell[0] for cell in counts), min(cell[0] for cell in counts)
west, east = min(cell[1] for cell in counts), max(cell[1] for cell in counts)
print(f"reports of {len(seen)} in cells of {CELL} degrees")
print("  lat  lon " + "".join(f"{CELL * column:8.3f}" for column in range(west, east + 1)))
for row in range(north, south - 1, -1):
    print(f"{CELL * row:7.3f}    " + "".join(f"{counts[row, column]:8d}" for column in range(west, east + 1)))
