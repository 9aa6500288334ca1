"""ASCII grids of counts, and what they are as the prior of a region."""

from __future__ import annotations

import gzip
import json
import tracemalloc

import numpy as np
import pytest
from typer.testing import CliRunner

import metricdp as mdp
from metricdp.cli.main import app
from metricdp.data.readers import streams
from metricdp.data.readers.streams import Allowance
from metricdp.errors import FileFormatError, InputError

HEADER = "ncols 4\nnrows 2\nxllcorner 12.0\nyllcorner 41.0\ncellsize 0.1\nNODATA_value -1\n"
COUNTS = "1 -1 0 4\n0 3 0 0\n"


def test_counts_and_extent(tmp_path):
    file = tmp_path / "people.asc"
    file.write_text(HEADER + COUNTS)
    counts, extent = mdp.data.read_raster(file)
    assert np.allclose(extent, (41.0, 12.0, 41.2, 12.4))
    np.testing.assert_array_equal(counts, [[1, np.nan, 0, 4], [0, 3, 0, 0]])


@pytest.mark.parametrize(
    "text",
    [
        "NCOLS 4\r\nNROWS 2\r\nXLLCENTER 12.05\r\nYLLCENTER 41.05\r\nCELLSIZE 0.1\r\n1 -9999 0 4\r\n0 3 0 0\r\n",
        "ncols\t4\n nrows 2\nxllcorner 12\nyllcorner 41\ndx 0.1\ndy 0.1\n1 nan 0\n4 0\n\n3 0 0",
    ],
    ids=["centres and line ends of Windows", "sides of their own and rows broken anywhere"],
)
def test_other_ways_to_write_the_same(tmp_path, text):
    file = tmp_path / "people.asc.gz"
    file.write_bytes(gzip.compress(text.encode()))
    counts, extent = mdp.data.read_raster(file)
    assert np.allclose(extent, (41.0, 12.0, 41.2, 12.4))
    np.testing.assert_array_equal(counts, [[1, np.nan, 0, 4], [0, 3, 0, 0]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER + "1 2 3\n", "has 3 cells, but its first lines promise 2 rows of 4"),
        (HEADER + COUNTS + "9\n", "has 9 cells"),
        (HEADER + "1 two 3 4\n", "line 7 is no line of an ASCII grid"),
        (HEADER + "1_0 2 3 4\n", "line 7 is no line of an ASCII grid"),
        ("lat,lon\n41,12\n", "line 1 is no line of an ASCII grid"),
        ("ncols 2\nnrows 2\n1 2\n3 4\n", "does not say where its cells are"),
        (HEADER.replace("0.1", "0") + COUNTS, "does not say where its cells are"),
        (HEADER.replace("ncols 4", "ncols 4.5") + COUNTS, "does not say where its cells are"),
        (HEADER.replace("ncols 4", "ncols nan") + COUNTS, "does not say where its cells are"),
        (HEADER.replace("ncols 4", "ncols 1e300") + COUNTS, "does not say where its cells are"),
        (HEADER.replace("12.0", "inf") + COUNTS, "does not say where its cells are"),
        ("nrows 5\n" + HEADER + COUNTS, "line 3: nrows stands there twice"),
        ("xllcenter 99\n" + HEADER + COUNTS, "has xllcorner and xllcenter, of which only one is meant"),
        ("dx 0.25\n" + HEADER + COUNTS, "has cellsize and dx, of which only one is meant"),
    ],
)
def test_what_is_no_raster_is_refused(tmp_path, text, message):
    file = tmp_path / "people.asc"
    file.write_text(text)
    with pytest.raises(FileFormatError, match=message):
        mdp.data.read_raster(file)


def test_more_than_fits_into_memory_is_refused(tmp_path):
    file = tmp_path / "people.asc"
    file.write_text(HEADER + COUNTS)
    with pytest.raises(InputError, match="more than fits"):
        mdp.data.read_raster(file, memory_limit=1e-7)


def test_one_number_a_line_takes_no_more_than_is_counted(tmp_path, monkeypatch):
    file, counted, take, peaks = tmp_path / "thin.asc", {}, Allowance.take, []
    monkeypatch.setattr(Allowance, "take", lambda self, n: (take(self, n), counted.update(taken=self.taken))[0])
    for n in (300_000, 900_000):
        file.write_text(HEADER.replace("ncols 4", "ncols 1").replace("nrows 2", f"nrows {n}") + "7\n" * n)
        tracemalloc.start()
        assert mdp.data.read_raster(file).counts.sum() == 7 * n
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert counted["taken"] == 900_000 * 24
    assert peaks[1] - peaks[0] < 600_000 * 24


def test_a_raster_that_unpacks_to_far_more_is_refused_in_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "ALWAYS_UNPACKED_BYTES", 100_000)
    file = tmp_path / "bomb.asc.gz"
    file.write_bytes(gzip.compress(b"ncols 1\n" + b"0\n" * 2_000_000))
    tracemalloc.start()
    with pytest.raises(InputError, match="unpacks to more than 50 times"):
        mdp.data.read_raster(file)
    assert tracemalloc.get_traced_memory()[1] < 2e7
    tracemalloc.stop()


def test_places_are_cells_or_points(tmp_path):
    region = mdp.data.region(41.0, 12.0, 41.2, 12.4, spacing=5.0)
    raster, points = tmp_path / "people.asc", tmp_path / "people.csv"
    raster.write_text(HEADER + COUNTS)
    points.write_text("lat,lon,weight\n41.15,12.05,1\n41.15,12.35,4\n41.05,12.15,3\n")
    cells, same = (mdp.data.read_places(file, region) for file in (raster, points))
    assert np.allclose(cells.coordinates, same.coordinates)
    assert np.allclose(cells.prior, same.prior)


def test_other_formats_name_the_way(tmp_path):
    region = mdp.data.region(41.0, 12.0, 41.2, 12.4, spacing=5.0)
    with pytest.raises(InputError, match="gdal_translate -of AAIGrid"):
        mdp.data.read_places(tmp_path / "people.TIF", region)


def test_solve_and_evaluate_take_a_raster(tmp_path):
    raster, file = tmp_path / "people.asc", tmp_path / "region.mdp"
    raster.write_text(HEADER + COUNTS)
    words = ["solve", "region:41.0,12.0,41.2,12.4", "--epsilon", "0.1", "--spacing", "4", "--gap", "0.2"]
    done = CliRunner().invoke(app, [*words, "--prior", str(raster), "-o", str(file), "--json"])
    assert done.exit_code == 0, done.output
    loss = json.loads(done.stdout)["loss"]
    asked = CliRunner().invoke(app, ["evaluate", str(file), "--prior", str(raster), "--json"])
    assert asked.exit_code == 0, asked.output
    found = json.loads(asked.stdout)
    assert found["records"] == 3
    assert found["loss"] == pytest.approx(loss, rel=1e-9)


def test_a_raster_of_elsewhere_is_refused_by_name(tmp_path):
    raster = tmp_path / "people.asc"
    raster.write_text(HEADER.replace("41.0", "4100000") + COUNTS)  # metres of a projection
    done = CliRunner().invoke(
        app, ["solve", "region:41.0,12.0,41.2,12.4", "--epsilon", "0.1", "--spacing", "4", "--prior", str(raster)]
    )
    assert isinstance(done.exception, InputError)
    assert "no cell of the raster with people lies in the region: check its extent" in str(done.exception)
