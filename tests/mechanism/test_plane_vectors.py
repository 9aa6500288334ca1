"""The test vectors of files of regions, read by this library and by the JavaScript module."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest

import metricdp as mdp
from metricdp.errors import CertificationError, FileFormatError
from metricdp.mechanism.plane_certify import exact_weights

FOLDER = Path(__file__).parent / "vectors" / "regions"
DRAWS, REGIONS, VERDICTS = (
    json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")) for name in ("draws", "regions", "verdicts")
)


@pytest.mark.parametrize("name", REGIONS)
def test_projection_and_weights_are_those_of_the_vectors(name):
    mechanism, expected = mdp.load_plane(FOLDER / name), REGIONS[name]
    assert mechanism.region.cosine.hex() == expected["cosine"]
    assert list(mechanism.region.shape) == expected["nodes"]
    w, v = exact_weights(mechanism.epsilon, mechanism.region.sides)
    assert (str(w), str(v)) == (expected["w"], expected["v"])


def test_draws_are_those_of_the_vectors():
    assert len(DRAWS) == 60 * len(REGIONS)
    made = {name: mdp.load_plane(FOLDER / name) for name in REGIONS}
    for draw in DRAWS:
        mechanism = made[draw["file"]]
        region = mechanism.region
        point = np.array([[float.fromhex(v) for v in draw["point"]]])
        assert [str(v) for v in region.steps_of(point)[0].tolist()] == draw["steps"]
        numbers = iter(int(u) for u in draw["numbers"])
        drawn = mechanism.draw_points(point, bits=lambda n, numbers=numbers: np.full(n, next(numbers), dtype=np.uint64))
        assert drawn.tolist() == [draw["output"]]
    assert {draw["file"] for draw in DRAWS} == set(REGIONS)
    assert {draw["output"] for draw in DRAWS} == {0, 1, 2}


@pytest.mark.parametrize("case", VERDICTS, ids=lambda case: f"{case['file']}: {case['what']}")
def test_verdicts_are_those_of_the_vectors(case, tmp_path):
    path = tmp_path / "case.mdp"
    path.write_bytes(base64.b64decode(case["base64"]))
    if case["accept"]:
        assert mdp.load_plane(path).certificate.privacy.certified
    else:
        with pytest.raises((FileFormatError, CertificationError)):
            mdp.load_plane(path)
