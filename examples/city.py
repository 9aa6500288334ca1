"""A city: certified reports of real intersections, compared with the exponential mechanism."""

import metricdp as mdp

records = mdp.data.road("gothenburg", n=200, seed=1)
problem = mdp.Problem(records, epsilon=5.0, eta=0.7, outputs=40, loss="travel", metric="street")
result = mdp.solve(problem, gap=1e-3)
simple = mdp.exponential(problem)
print(result)
print(result.mechanism.certificate)
print(f"exponential mechanism: {problem.expected_loss(simple.probabilities):.4f} km")
