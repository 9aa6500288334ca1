import errno
import mmap
import pickle

import numpy as np
import pytest

from metricdp.data.frozen import Unnamed, frozen
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


class TestUnnamed:
    def test_is_kept_without_a_copy(self):
        made = Unnamed(4, np.uint64)
        made.values[:] = [1, 2, 3, 4]
        kept = made.sealed()
        assert frozen(kept) is kept
        assert kept.tolist() == [1, 2, 3, 4]
        with pytest.raises(ValueError, match="WRITEABLE"):
            kept.setflags(write=True)

    def test_is_not_sealed_while_somebody_could_write(self):
        made = Unnamed(2, np.int32)
        mine = made.values
        with pytest.raises(BufferError):
            made.sealed()
        mine[:] = 7

    def test_nothing(self):
        assert Unnamed(0, np.int32).sealed().shape == (0,)

    def test_a_map_of_somebody_else_is_copied(self, tmp_path):
        file = tmp_path / "values"
        file.write_bytes(bytes(16))
        with file.open("rb") as opened:
            mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        theirs = np.frombuffer(mapped, dtype=np.uint64)
        kept = frozen(theirs)
        file.write_bytes(bytes([1]) * 16)
        assert kept.tolist() == [0, 0]

    def test_a_full_disk_is_said_at_once(self, monkeypatch):
        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("os.posix_fallocate", full)
        with pytest.raises(InputError, match="no room for a temporary file.*No space left.*TMPDIR"):
            Unnamed(10, np.uint64)
