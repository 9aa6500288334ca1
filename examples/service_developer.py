"""A service developer: from a file of places to one mechanism file, remembered reports, and budgets that run out."""

import csv
from pathlib import Path

import metricdp as mdp
from metricdp.budget import BudgetExceededError

RAW, FILE = Path("places.csv"), Path("service.mdp")

# the raw file: the public places of a city that may be reported, each with its name
corners = mdp.data.road("gothenburg").nearest((57.7047, 11.9663), 60)
with RAW.open("w", encoding="utf-8", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["id", "lat", "lon"])
    rows.writerows([f"corner {number}", lat, lon] for number, (lat, lon) in enumerate(corners.coordinates.tolist()))

# once, anywhere: from the file alone; what is made is certified again by whoever loads it
places = mdp.data.read_records(RAW)
problem = mdp.Problem(places, epsilon=4.0, eta="connect", outputs=20)
mdp.solve(problem, gap=0.05).mechanism.save(FILE)

# at the start of the service: load refuses a file that is damaged, not private, or promises less than required
mechanism = mdp.load(FILE, require="epsilon<=4, metric=haversine")
print(mechanism.certificate)

# the ledger and the memory hold no names: they are kept under the key, which belongs in another place
ledger = mdp.Ledger("spent.db", limit=3 * mechanism.epsilon, key=Path("service.key"))
reports = mdp.memoize(mechanism, "memory.db", ledger=ledger, key=Path("service.key"))

# what Ana's phone says, some metres off the nearest place; asking again for a place repeats its answer, at no cost
home, work, gym, doctor = [(lat + 1.2345e-4, lon - 2.3456e-4) for lat, lon in places.coordinates[:40:10].tolist()]
for point in (home, work, home, home, gym):
    report = reports.perturb_points("Ana", [point], limit=0.1).ids[0]
    print(f"report {report}, left {ledger.remaining('Ana'):g}")

# the fourth place would be the fourth report: refused before anything is drawn
try:
    reports.perturb_points("Ana", [doctor], limit=0.1)
except BudgetExceededError as refused:
    print(f"refused: {refused}")
else:
    raise SystemExit("a report was given beyond the budget")
again = reports.perturb_points("Ana", [home], limit=0.1).ids[0]
print(f"home is still answered: {again}; another person has {ledger.remaining('Ben'):g} left")

# what the ledger says is what was spent: its chain of entries is checked under the key
ledger.check()
print(f"{FILE} verified: {mdp.load(FILE).certificate.privacy.certified}")
