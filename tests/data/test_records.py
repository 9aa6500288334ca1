"""Records: priors, names and choices at their limits."""

from __future__ import annotations

import numpy as np
import pytest

from metricdp.data import Records, grid, road
from metricdp.data.geodesy import haversine_km
from metricdp.data.named import chosen, default_eta, named
from metricdp.errors import InputError


@pytest.mark.parametrize("weight", [1e308, 1.0, 5e-324])
def test_weights_of_any_size_make_a_prior(weight):
    records = Records([[0.0], [1.0], [2.0], [3.0]], kind="vectors", prior=[weight] * 4)
    assert records.prior.tolist() == [0.25] * 4


def test_a_doubled_row_is_named():
    with pytest.raises(InputError, match="row 7 is named more than once"):
        grid(3, 3).select([1, 7, 2, 7])


def test_a_doubled_row_in_a_file_is_named(tmp_path):
    (tmp_path / "rows.csv").write_text("1\n7\n7\n")
    with pytest.raises(InputError, match="row 7 is named more than once"):
        chosen(grid(3, 3), str(tmp_path / "rows.csv"), seed=0)


def test_a_name_can_always_be_written():
    assert Records([[0.0]], kind="vectors", name="b\udcffd").name == "b?d"


def test_ids_that_cannot_be_written_are_refused():
    with pytest.raises(InputError, match=r"'\\ud83d' holds half a character"):
        Records([[0.0], [1.0]], kind="vectors", ids=["a", "\ud83d"])


def test_names_that_no_file_can_have_are_unknown():
    for name in ("a" * 5000, "zero\0byte"):
        assert default_eta(name) is None
        with pytest.raises(InputError, match="unknown dataset"):
            named(name)


class TestNearest:
    """A neighbourhood: the nearest records to a point, in their order."""

    def test_by_the_distance_of_the_kind(self):
        city = road("gothenburg")
        near = city.nearest((57.7072, 11.9668), 40)
        distances = haversine_km(city.coordinates, (57.7072, 11.9668))
        rows = [city.ids.index(name) for name in near.ids]
        assert rows == sorted(rows)
        assert sorted(distances[rows]) == pytest.approx(sorted(distances)[:40])
        assert near.streets is not None

    def test_vectors(self):
        records = Records(np.array([[0.0, 9.0], [1.0, 1.0], [0.5, 0.0]]), kind="vectors")
        assert records.nearest([0.0, 0.0], 2).ids == ("1", "2")

    @pytest.mark.parametrize("n", [0, 10, -1])
    def test_a_count_that_is_not_there(self, n):
        with pytest.raises(InputError, match=r"cannot take -?\d+ of the 9 records of .*: ask for 1 to 9"):
            grid(3, 3).nearest([0.0, 0.0], n)

    @pytest.mark.parametrize("point", [[0.0], [0.0, 0.0, 0.0], [0.0, np.nan], 1.0])
    def test_a_point_of_another_kind(self, point):
        with pytest.raises(InputError, match="must have the records' 2 coordinates, all finite"):
            grid(3, 3).nearest(point, 2)
