"""A mechanism for your own distance and loss: ages in years, where reporting too young costs twice as much."""

import numpy as np

import metricdp as mdp

ages = np.arange(18, 66, dtype=float)
difference = ages[None, :] - ages[:, None]  # reported minus true
loss = np.where(difference < 0, -2.0 * difference, difference)

problem = mdp.Problem(
    mdp.Records(ages, ids=[f"{age:.0f}" for age in ages], kind="vectors", name="ages"),
    epsilon=0.5,
    eta=3.0,
    outputs=np.arange(len(ages)),
    metric=lambda a, b: abs(float(a[0] - b[0])),
    loss=loss,
)
result = mdp.solve(problem, gap=1e-4)
print(result)
print(result.mechanism.certificate)
print("somebody of 30 reports", result.mechanism.perturb(["30"] * 8))
