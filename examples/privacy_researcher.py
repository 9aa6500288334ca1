"""A privacy researcher: a matrix of somebody's own audited exactly, repaired, compared by name, and swept."""

import csv
from pathlib import Path

import numpy as np

import metricdp as mdp
from metricdp.evaluate import compare, sweep

# the raw files: 16 points, and a mechanism for them as its author published it, without a header.
# it tells the truth in one of 8 cases and any of the 16 points otherwise: at distance 1 that is epsilon = ln(23/7)
with Path("points.csv").open("w", encoding="utf-8", newline="") as file:
    csv.writer(file).writerows([["id", "x", "y"], *([f"p{4 * y + x:02d}", x, y] for y in range(4) for x in range(4))])
np.savetxt("theirs.csv", np.eye(16) / 8 + 7 / 128, delimiter=",")

problem = mdp.Problem(mdp.data.read_records("points.csv"), epsilon=1.0, eta=1.5)
theirs = mdp.data.read_matrix("theirs.csv")

# which epsilon does it satisfy? exactly, and as it is
found = mdp.audit(theirs, problem)
print(found)

# repaired, since it promises too much: certified at epsilon 1, and how far its rows were moved
repaired = mdp.Mechanism.from_matrix(problem, theirs)
print(f"after repair: {repaired.moved}")
print(repaired.certificate)
repaired.save("repaired.mdp")

# beside the optimum and others, by name
best = mdp.solve(problem, gap=1e-3)
made = {"theirs": theirs, "repaired": repaired, "optimal": best.mechanism}
for row in compare(made, problem, ["exponential", "planar-laplace"]).rows:
    holds = "holds" if row.certified else "does NOT hold"
    print(f"{row.name:15} loss {row.loss:.4f}, adversary off by {row.adversary_error:.4f}, epsilon 1 {holds}")

# over a range of budgets, beside what no mechanism can go below
swept = sweep(problem, [0.5, 1.0, 2.0], {"theirs": lambda _: theirs, "optimal": "optimal"})
for point in swept.points:
    holds = "holds" if point.certified else "does NOT hold"
    bound = f"lower bound {point.lower_bound:.4f}"
    print(f"epsilon {point.epsilon:<4g}{point.name:10} loss {point.loss:.4f}, {bound}, {holds}")
