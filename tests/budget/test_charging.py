"""What reports spend together, and whose rows a file has."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import pytest

from metricdp.apply.batches import Batch
from metricdp.budget import budget
from metricdp.budget.charging import Persons
from metricdp.errors import InputError

SOURCE = SimpleNamespace(path="in.csv")


def reading(*batches):
    """A reader of a file that gives these batches, and notes what it was asked to keep."""

    def read(source, mechanism, keep, *, are_places):
        read.keep = keep
        yield from batches

    return read


@pytest.mark.parametrize(("n_reports", "epsilon"), [(0, 0.5), (1, 0.5), (3, 0.1), (1000, 0.3)])
def test_reports_of_one_holder_add_up_and_the_sum_is_rounded_up(n_reports, epsilon):
    spent = budget(SimpleNamespace(epsilon=epsilon), n_reports)
    exact = n_reports * Fraction(epsilon)
    assert exact <= Fraction(spent) <= exact * (1 + Fraction(1, 2**52))


def test_the_person_is_the_last_of_the_kept_columns_and_is_taken_out_again():
    persons = Persons("who")
    read = reading(Batch(None, None, [("red", "Ana"), ("blue", "Ben")]), Batch(None, None, [("green", "Ana")]))
    batches = list(persons.counting(read)(SOURCE, None, ("colour",), are_places=True))
    assert read.keep == ("colour", "who")
    assert persons.rows_of == {"Ana": 2, "Ben": 1}
    assert [batch.kept for batch in batches] == [[("red",), ("blue",)], [("green",)]]


def test_a_column_id_names_the_persons_of_places_but_not_of_records():
    read = reading(Batch(None, None, [("Ana",)]))
    persons = Persons(" ID")
    with pytest.raises(InputError, match="names the true records"):
        list(persons.counting(read)(SOURCE, None, (), are_places=False))
    list(persons.counting(read)(SOURCE, None, (), are_places=True))
    assert persons.rows_of == {"Ana": 1}
