"""Parts of mechanisms: the rows of some records, certified on their own, and the command that writes them."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
from tests.mechanism.sparse_tables import sparse_of

import metricdp as mdp
from metricdp.data.regions import Region
from metricdp.mechanism.part import part_of


@pytest.fixture(scope="module")
def city():
    return mdp.data.road("gothenburg", n=40, seed=3)


@pytest.fixture(scope="module", params=["dense", "sparse", "points"])
def whole(request, city):
    if request.param == "sparse":
        problem = mdp.Problem(city, epsilon=0.7, eta=2.0, outputs=np.arange(40))
        return mdp.Mechanism.of(problem, sparse_of(mdp.exponential(problem).table))
    outputs = [[57.7, 11.9], [57.6, 12.0], [57.71, 11.98]] if request.param == "points" else 12
    return mdp.exponential(mdp.Problem(city, epsilon=2.0, eta=2.0, outputs=outputs, loss="distance"))


ROWS = np.array([0, 2, 3, 5, 8, 13, 21, 22, 23, 34, 39])


def test_the_rows_are_those_of_the_whole(whole):
    part = part_of(whole, ROWS)
    assert part.certificate.privacy.certified
    assert part.records.ids == tuple(whole.records.ids[row] for row in ROWS)
    assert np.array_equal(part.outputs.coordinates, whole.outputs.coordinates)
    assert np.array_equal(part.block(), whole.block(ROWS))  # never scaled again


def test_the_pairs_are_all_those_of_the_whole(whole):
    part = part_of(whole, ROWS)
    place = {int(row): k for k, row in enumerate(ROWS)}
    expected = {
        (place[i], place[j]): d
        for (i, j), d in zip(whole.graph.pairs.tolist(), whole.graph.distances.tolist(), strict=True)
        if i in place and j in place
    }
    assert dict(zip(map(tuple, part.graph.pairs.tolist()), part.graph.distances.tolist(), strict=True)) == expected


def test_losses_are_those_of_the_rows(whole):
    part = part_of(whole, ROWS)
    np.testing.assert_array_equal(part.losses.whole(), whole.losses.whole()[ROWS])
    assert part.optimality is None  # of another prior


def test_merged_outputs_lie_inside_and_cost_what_is_said(whole):
    if whole.outputs.rows is None:
        with pytest.raises(mdp.InputError, match="outputs are points"):
            part_of(whole, ROWS, merge_outputs=True)
        return
    rows = np.unique(np.r_[ROWS, whole.outputs.rows[:3]])
    part = part_of(whole, rows, merge_outputs=True)
    assert set(part.outputs.ids(part.records)) <= set(part.records.ids)
    assert part.outputs.n == np.isin(whole.outputs.rows, rows).sum()
    np.testing.assert_allclose(part.block().sum(axis=1), 1.0)
    kept = part_of(whole, rows)
    inside = np.isin(whole.outputs.rows, rows)
    assert (part.block() >= kept.block()[:, inside] - 1e-15).all()  # columns were added, not scaled
    expected = (part.records.prior @ (part.block() * part.losses.whole())).sum()
    assert part.loss == pytest.approx(expected)


def test_parts_of_nothing_are_refused(whole):
    for rows in ([], [3, 2], [2, 2], [-1, 2], [2, 40]):
        with pytest.raises(mdp.InputError):
            part_of(whole, np.array(rows, dtype=np.int64))


def test_a_saved_part_is_the_same(whole, tmp_path):
    part = part_of(whole, ROWS)
    part.save(tmp_path / "part.mdp")
    again = mdp.load(tmp_path / "part.mdp")
    assert np.array_equal(again.block(), part.block())
    assert again.guarantee.records_hash == part.guarantee.records_hash


def test_boxes_and_polygons(tmp_path):
    places = np.array([[57.7, 11.95], [57.8, 12.0], [57.7, 12.1], [-57.7, 11.95]])
    assert Region.of("57.6,11.9,57.8,12.0").contains(places).tolist() == [True, True, False, False]  # borders belong
    outer, hole = (
        [[11, 57], [13, 57], [13, 58], [11, 58], [11, 57]],
        [[11.9, 57.6], [12, 57.6], [12, 57.75], [11.9, 57.75]],
    )
    for made in (
        {"type": "Polygon", "coordinates": [outer, hole]},
        {"type": "Feature", "geometry": {"type": "MultiPolygon", "coordinates": [[outer, hole]]}},
        {
            "type": "FeatureCollection",
            "features": [{"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [outer, hole]}}],
        },
    ):
        (tmp_path / "region.geojson").write_text(json.dumps(made), encoding="utf-8")
        found = Region.of(str(tmp_path / "region.geojson")).contains(places)
        assert found.tolist() == [False, True, True, False]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1,2,3", "four numbers"),
        ("57.8,11.9,57.6,12.0", "south must be below north"),
        ("nan,1,2,3", "four numbers"),
        ("nowhere.geojson", "there is no region"),
        ({"type": "Point", "coordinates": [1, 2]}, "other than polygons"),
        ({"type": "Polygon", "coordinates": [[[1, 2], [3, 4]]]}, "no rings"),
        ({"type": "Polygon", "coordinates": [[[1, 99], [3, 4], [5, 6]]]}, "beyond 180 and 90"),
        ({"type": "Polygon", "coordinates": [[[-170, 9], [170, 4], [5, 6]]]}, "wider than 180"),
        ({"type": "FeatureCollection", "features": []}, "holds no polygon"),
        ([], "other than polygons"),
    ],
)  # fmt: skip
def test_what_is_no_region(text, said, tmp_path):
    if not isinstance(text, str):
        (tmp_path / "r.geojson").write_text(json.dumps(text), encoding="utf-8")
        text = str(tmp_path / "r.geojson")
    with pytest.raises(mdp.InputError, match=said):
        Region.of(text)


@pytest.fixture
def file(city, tmp_path):
    path = tmp_path / "city.mdp"
    mdp.exponential(mdp.Problem(city, epsilon=2.0, eta=2.0, outputs=12)).save(path)
    return path


def test_export_writes_a_certified_part(run, file, tmp_path):
    south, west = np.quantile(mdp.load(file).records.coordinates, 0.2, axis=0)
    code, text, errors = run(
        "export", str(file), "--region", f"{south},{west},58,13", "-o", str(tmp_path / "part.mdp"), "--json"
    )
    assert code == 0, errors
    said = json.loads(text)
    part = mdp.load(tmp_path / "part.mdp")
    assert said["records"] == part.records.n < 40
    assert said["bytes"] == said["bytes_unpacked"] == (tmp_path / "part.mdp").stat().st_size
    assert said["promise"] == part.guarantee.sentence
    assert part.losses is None  # devices need none


def test_export_packs(run, file, tmp_path):
    code, text, errors = run("export", str(file), "-o", str(tmp_path / "part.mdp"), "--compress", "--keep-losses")
    assert code == 0, errors
    data = gzip.decompress((tmp_path / "part.mdp.gz").read_bytes())
    assert not (tmp_path / "part.mdp").exists()
    (tmp_path / "again.mdp").write_bytes(data)
    assert mdp.load(tmp_path / "again.mdp").losses is not None
    assert f"{len(data):,} when unpacked" in text


def test_export_says_what_merging_costs(run, file, tmp_path):
    whole = mdp.load(file)
    names = [*whole.outputs.ids(whole.records)[:5], *whole.records.ids[::2]]
    (tmp_path / "ids.txt").write_text("\n".join(dict.fromkeys(names)), encoding="utf-8")
    words = ("export", file, "--ids", "ids.txt", "--merge-outputs", "-o", "part.mdp")
    code, text, errors = run(*words, "--json")
    assert code == 0, errors
    said = json.loads(text)
    part = mdp.load(tmp_path / "part.mdp")
    assert said["outputs"] == part.outputs.n < 12
    assert part.outputs.rows is not None
    kept = part_of(whole, np.unique(whole.rows_of(list(dict.fromkeys(names)))))
    assert said["loss_with_all_outputs"] == kept.loss != said["loss"]
    assert f"with all outputs it is {kept.loss:.6g}" in run(*words)[1]


def test_export_by_ids(run, file, tmp_path):
    ids = mdp.load(file).records.ids
    (tmp_path / "ids.txt").write_text("\n".join(ids[::-2]), encoding="utf-8")
    code, text, errors = run("export", str(file), "--ids", str(tmp_path / "ids.txt"), "-o", str(tmp_path / "part.mdp"))
    assert code == 0, errors
    assert set(mdp.load(tmp_path / "part.mdp").records.ids) == set(ids[::-2])
    assert "not protected: choose it without looking" in text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--region", "0,0,1,1"], "no record lies in the region"),
        (["--region", "0,0,1,1", "--ids", "x.txt"], "both choose records"),
        (["--ids", "nothing.txt"], "cannot read"),
        (["-o", "city.mdp"], "both name"),
        (["-o", "part.mdp.gz"], "add --compress"),
    ],
)
def test_export_refuses(options, said, run, file, tmp_path):
    code, _, errors = run("export", "city.mdp", "-o", "part.mdp", *options)
    assert code == 2, errors
    assert said in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["city.mdp"]


def test_a_part_in_which_nobody_has_a_neighbour_is_not_written(run, file, tmp_path):
    (tmp_path / "ids.txt").write_text(mdp.load(file).records.ids[0], encoding="utf-8")
    code, _, errors = run("export", str(file), "--ids", str(tmp_path / "ids.txt"), "-o", str(tmp_path / "part.mdp"))
    assert code == 2
    assert "nothing would be protected" in errors
    assert not (tmp_path / "part.mdp").exists()
