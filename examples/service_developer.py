"""A service developer: one mechanism file, reports that are remembered, and budgets that run out."""

from pathlib import Path

import metricdp as mdp
from metricdp.budget import BudgetExceededError

FILE = Path("service.mdp")

# once, anywhere: the file is certified again by whoever loads it
if not FILE.exists():
    places = mdp.data.road("gothenburg", n=150, seed=0)
    mdp.solve(mdp.Problem(places, epsilon=4.0, eta="connect", outputs=30), gap=0.05).mechanism.save(FILE)

# at the start of the service: load refuses a file that is damaged, not private, or promises less than required
mechanism = mdp.load(FILE, require="epsilon<=4, metric=haversine")
print(mechanism.certificate)

# the ledger and the memory hold no names: they are kept under the key, which belongs in another place
ledger = mdp.Ledger("spent.db", limit=3 * mechanism.epsilon, key=Path("service.key"))
reports = mdp.memoize(mechanism, "memory.db", ledger=ledger, key=Path("service.key"))

home, work, gym, doctor = mechanism.records.ids[:4]
for place in (home, work, home, home, gym):  # asking again repeats the answer, at no cost
    print(f"report {reports.perturb('Ana', place)}, left {ledger.remaining('Ana'):g}")

# the fourth place would be the fourth report: refused before anything is drawn
try:
    reports.perturb("Ana", doctor)
except BudgetExceededError as refused:
    print(f"refused: {refused}")
else:
    raise SystemExit("a report was given beyond the budget")
print(f"home is still answered: {reports.perturb('Ana', home)}; another person has {ledger.remaining('Ben'):g} left")

# what the ledger says is what was spent: its chain of entries is checked under the key
ledger.check()
print(f"{FILE} verified: {mdp.load(FILE).certificate.privacy.certified}")
