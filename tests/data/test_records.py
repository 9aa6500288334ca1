"""Records: priors, names and choices at their limits."""

from __future__ import annotations

import pytest

from metricdp.data import Records, grid
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
