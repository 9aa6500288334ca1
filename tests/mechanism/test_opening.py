"""`mdp.load` and `mdp.solve` take regions as they take records."""

import pytest

import metricdp as mdp
from metricdp.errors import InputError


def test_solve_and_load_serve_regions(tmp_path):
    """Solve and load take the problem of a region and its file as they take records and theirs."""
    box = mdp.data.region(0.0, 0.0, 1.0, 1.0, spacing=0.5, kind="vectors")
    result = mdp.solve(mdp.PlaneProblem(box, epsilon=0.5), max_steps=20, bound=False)
    assert isinstance(result, mdp.PlaneResult)
    result.mechanism.save(tmp_path / "box.mdp")
    again = mdp.load(tmp_path / "box.mdp", require="epsilon<=0.5")
    assert isinstance(again, mdp.PlaneMechanism)
    assert (again.table == result.mechanism.table).all()
    with pytest.raises(mdp.CertificationError, match="requirement"):
        mdp.load(tmp_path / "box.mdp", require="epsilon<=0.4")
    with pytest.raises(InputError, match="PlaneProblem"):
        mdp.Problem(box, epsilon=0.5, eta=1.0)
