"""A privacy researcher: a matrix of one's own audited exactly, compared by name, and a sweep beside its lower bound."""

import numpy as np

import metricdp as mdp
from metricdp.evaluate import compare, sweep

records = mdp.data.grid(5, 6)
problem = mdp.Problem(records, epsilon=1.0, eta=1.5, outputs=15, loss="distance")


def mine(at: mdp.Problem) -> np.ndarray:
    """Return the mechanism under study: noise on the outputs at two thirds of epsilon, normalised."""
    weights = np.exp(-2 / 3 * at.epsilon * at.loss)
    return weights / weights.sum(axis=1, keepdims=True)


# which epsilon does it satisfy? exactly, and as it is
found = mdp.audit(mine(problem), problem)
print(found)

# repaired, if it has to be: certified, and how far its rows were moved
repaired = mdp.Mechanism.from_matrix(problem, mine(problem))
print(f"after repair: {repaired.moved}")

# beside the optimum and others, by name
best = mdp.solve(problem, gap=1e-3)
rows = compare({"mine": mine(problem), "optimal": best.mechanism}, problem, ["exponential", "planar-laplace"]).rows
for row in rows:
    holds = "holds" if row.certified else "does NOT hold"
    print(f"{row.name:15} loss {row.loss:.4f}, adversary off by {row.adversary_error:.4f}, epsilon 1 {holds}")

# over a range of budgets, beside what no mechanism can go below
swept = sweep(problem, [0.5, 1.0, 2.0], {"mine": mine, "optimal": "optimal"})
for point in swept.points:
    print(f"epsilon {point.epsilon:<4g}{point.name:10} loss {point.loss:.4f}, lower bound {point.lower_bound:.4f}")
