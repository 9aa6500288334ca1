import pickle

import numpy as np
import pytest

from metricdp.data.frozen import frozen
from metricdp.errors import InputError


@pytest.mark.parametrize("shape", [(3,), (2, 3), (0, 2)])
def test_a_frozen_array_is_equal_apart_and_never_writable(shape):
    given = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    kept = frozen(given)
    np.testing.assert_array_equal(kept, given)
    assert kept.dtype == given.dtype
    assert not kept.flags.writeable
    assert not np.shares_memory(kept, given)


def test_no_flag_makes_it_writable_again():
    kept = frozen([[1.0, 2.0]])
    with pytest.raises(ValueError, match="WRITEABLE"):
        kept.setflags(write=True)
    with pytest.raises(ValueError, match="read-only"):
        kept[0, 0] = 5.0


def test_a_masked_array_is_refused():
    with pytest.raises(InputError, match="masked array"):
        frozen(np.ma.array([1, 2, 3], mask=[False, True, False]))


def test_what_is_frozen_already_is_not_copied_and_what_only_looks_so_is():
    kept = frozen([[1.0, 2.0], [3.0, 4.0]])
    assert np.shares_memory(frozen(kept), kept)
    assert np.shares_memory(frozen(kept[1:]), kept)
    owned = np.arange(3.0)
    view = owned[:]
    view.setflags(write=False)
    unpickled = pickle.loads(pickle.dumps(np.arange(3.0), protocol=2))  # noqa: S301
    for array in (owned, view, unpickled, np.frombuffer(bytearray(24))):
        assert not np.shares_memory(frozen(array), array)


def test_an_array_of_objects_is_refused():
    with pytest.raises(InputError, match="Python objects"):
        frozen(np.array([1, None], dtype=object))
