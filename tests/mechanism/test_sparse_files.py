"""Files of sparse tables come back the same, or are refused: every check of the loader, one fault at a time."""

from __future__ import annotations

import pytest
from tests.mechanism.damage import EDITS, HARMLESS, RAW, damaged, grid_problem, harmless, packed, sparse, unpacked

import metricdp as mdp


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    path = tmp_path_factory.mktemp("sparse") / "m.mdp"
    sparse(grid_problem()).save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def all_damaged(honest):
    return {name: (data, said) for name, data, said in damaged(honest)}


def loaded(tmp_path, data):
    path = tmp_path / "m.mdp"
    path.write_bytes(data)
    return mdp.load(path)


@pytest.mark.parametrize("name", [*EDITS, *RAW])
def test_damage_is_refused(name, all_damaged, tmp_path):
    data, said = all_damaged[name]
    with pytest.raises((mdp.FileFormatError, mdp.CertificationError)) as caught:
        loaded(tmp_path, data)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("name", HARMLESS)
def test_what_still_holds_is_read(name, honest, tmp_path):
    data = dict(harmless(honest))[name]
    metadata, _ = unpacked(data)
    mechanism = loaded(tmp_path, data)
    assert mechanism.certificate.privacy.certified
    assert mechanism.certificate.is_from_file
    assert mechanism.records.name == metadata["name"]
    mechanism.save(tmp_path / "again.mdp")
    again = mdp.load(tmp_path / "again.mdp")
    assert again.certificate.privacy.certified
    assert (again.epsilon, again.eta, again.metric) == (mechanism.epsilon, mechanism.eta, mechanism.metric)


def test_put_together_by_hand_it_is_still_honest(honest, tmp_path):
    assert loaded(tmp_path, packed(*unpacked(honest))).certificate.privacy.certified
