"""The shipped and generated data sets are what their docstrings say."""

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

import metricdp.data
from metricdp.data import WORDS_ETA, gaussian, grid, road, words
from metricdp.data.geodesy import haversine_km
from metricdp.data.shipped import load_shipped
from metricdp.errors import FileFormatError, InputError

FILES = Path(metricdp.data.__file__).parent / "files"


def degree_and_components(vectors, eta):
    is_near = cdist(vectors, vectors) <= eta
    np.fill_diagonal(is_near, val=False)
    count, label = connected_components(is_near, directed=False)
    return is_near.sum() / len(vectors), count, np.bincount(label).max()


def test_provenance_states_the_files_as_they_are():
    stated = dict(
        re.findall(r"\| `([\w-]+\.safetensors)` \|[^|]*\| `([0-9a-f]{64})`", (FILES / "PROVENANCE.md").read_text())
    )
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in FILES.glob("*.safetensors")}
    assert stated == found
    assert sum(path.stat().st_size for path in FILES.iterdir()) < 1_000_000
    assert "© OpenStreetMap contributors" in (FILES / "PROVENANCE.md").read_text()


def test_gothenburg_is_one_connected_city():
    city = road()
    streets = city.streets
    assert (city.n, streets.n_edges, city.kind) == (6239, 8310, "places")
    assert round(streets.lengths.sum()) == 914
    graph = coo_array((streets.lengths, streets.edges.T), shape=(city.n, city.n))
    assert connected_components(graph, directed=False)[0] == 1
    assert np.array_equal(city.coordinates[city.street_nodes], streets.coordinates[city.street_nodes])
    assert (np.abs(city.coordinates - [57.70, 11.97]) < [0.06, 0.13]).all()


def test_no_street_is_shorter_than_the_straight_line():
    streets = road().streets
    ends = streets.coordinates[streets.edges]
    straight = haversine_km(ends[:, 0], ends[:, 1])
    assert (streets.lengths >= straight).all()
    assert np.median(streets.lengths / straight) < 1.1


def test_streets_are_drawn_once_and_join_different_intersections():
    edges = road().streets.edges
    assert (edges[:, 0] < edges[:, 1]).all()
    assert len(np.unique(edges, axis=0)) == len(edges)


def test_road_draws_by_seed_and_keeps_the_streets():
    first, again, other = road(n=300, seed=1), road(n=300, seed=1), road(n=300, seed=2)
    assert first.ids == again.ids != other.ids
    assert first.streets is road().streets
    assert np.array_equal(first.streets.coordinates[first.street_nodes], first.coordinates)
    assert first.ids[0] == f"g{first.street_nodes[0]:04d}"


def test_the_shared_city_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        road().streets.lengths[0] = 0.0


def test_unknown_city_names_the_known():
    with pytest.raises(InputError, match=r"no city 'atlantis' .* gothenburg"):
        road("atlantis")


def test_a_missing_shipped_file_says_so():
    with pytest.raises(FileFormatError, match="install metricdp again"):
        load_shipped("nothing")


def test_grid_has_the_cells_of_the_paper():
    records = grid()
    assert (records.n, records.kind, records.ids[0], records.ids[-1]) == (500, "vectors", "r00c00", "r19c24")
    assert np.array_equal(records.coordinates[[0, -1]], [[0.5, 0.5], [19.5, 24.5]])
    assert np.array_equal(grid(2, 3, cell=0.5).coordinates[4], [0.75, 0.75])
    assert grid(101, 2).ids[-1] == "r100c001"
    assert grid(n=7, seed=3).ids == grid(n=7, seed=3).ids


@pytest.mark.parametrize(("options", "message"), [({"rows": 0}, "rows"), ({"columns": -1}, "columns")])
def test_grid_refuses_sizes_that_make_no_map(options, message):
    with pytest.raises(InputError, match=f"{message} must be at least 1"):
        grid(**options)


@pytest.mark.parametrize("cell", [0.0, -1.0, np.nan, np.inf])
def test_grid_refuses_cells_without_size(cell):
    with pytest.raises(InputError, match="cell must be a positive length"):
        grid(cell=cell)


def test_words_are_common_with_a_falling_prior():
    records = words()
    assert (records.n, records.dimension, records.kind) == (2000, 100, "vectors")
    assert all(len(word) >= 3 and word.isalpha() and word.islower() for word in records.ids)
    assert (np.diff(records.prior) <= 0).all()
    assert records.prior.sum() == pytest.approx(1.0)


def test_words_near_in_meaning_are_near():
    records = words()
    vector = dict(zip(records.ids, records.coordinates, strict=True))
    assert np.allclose(vector["the"][:3], [-0.038194, -0.24487, 0.72812], atol=1e-4)  # as GloVe publishes it
    assert np.linalg.norm(vector["king"] - vector["queen"]) < np.linalg.norm(vector["king"] - vector["email"])


@pytest.mark.parametrize(("eta", "expected"), [(3.5, (4.5, 1174, 603)), (WORDS_ETA, (17.7, 719, 1055))])
def test_words_eta_gives_the_graph_the_docstring_states(eta, expected):
    degree, count, largest = degree_and_components(words().coordinates, eta)
    assert (round(degree, 1), count, largest) == expected


def test_500_words_have_the_neighbours_the_docstring_states():
    found = [degree_and_components(words(n=500, seed=seed).coordinates, WORDS_ETA) for seed in range(10)]
    degree, count, largest = np.mean(found, axis=0)
    assert (round(degree, 1), round(count), round(largest)) == (4.4, 285, 186)


def test_gaussian_has_the_neighbours_the_docstring_states():
    found = [degree_and_components(gaussian(500, seed=seed).coordinates, 2.0) for seed in range(10)]
    degree, count, largest = np.mean(found, axis=0)
    assert (round(degree, 1), round(count), round(largest)) == (12.9, 30, 460)


def test_gaussian_has_the_scale_and_dimension_asked_for():
    records = gaussian(20_000, dimension=2, scale=5.0, seed=4)
    assert records.dimension == 2
    assert np.allclose(records.coordinates.std(axis=0), 5.0, rtol=0.02)
    assert np.array_equal(gaussian(9, seed=1).coordinates, gaussian(9, seed=1).coordinates)


def test_gaussian_reports_all_faults_at_once():
    with pytest.raises(InputError, match=r"3 faults: n must be .*; dimension must be .*; scale must be"):
        gaussian(0, dimension=0, scale=-1.0)


def test_every_public_name_is_there():
    assert all(hasattr(metricdp.data, name) for name in metricdp.data.__all__)
