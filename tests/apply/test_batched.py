"""A mechanism as a function of batches: what `datasets.map(..., batched=True)` calls."""

from __future__ import annotations

import pickle

import pytest

import metricdp as mdp
from metricdp.apply import batched

NAMES = ["left", "right", "middle", "alone"]


@pytest.fixture(scope="module")
def mechanism():
    words = mdp.Records([[0.0], [1.0], [2.0], [50.0]], ids=NAMES, kind="vectors")
    return mdp.exponential(mdp.Problem(words, epsilon=1.0, eta=1.5))


def test_a_batch_is_perturbed_column_by_column(mechanism):
    batch = {"note": ["Left, right!", "", "middle\nleft right"], "word": ["left", "right", "middle"], "age": [1, 2, 3]}
    function = batched(mechanism, text="note", ids=["word"])
    made = function(batch)
    assert set(made) == {"note", "word"}
    assert [len(text.split()) for text in made["note"]] == [2, 0, 3]
    assert made["note"][2].count("\n") == 1
    assert all(text == text.strip(" ") for text in made["note"])
    assert set(" ".join(made["note"]).split()) | set(made["word"]) <= set(NAMES)
    assert function.summary.words == 5
    function(batch)
    assert function.summary.words == 10
    assert batch["note"][0] == "Left, right!"
    assert set(pickle.loads(pickle.dumps(function))(batch)) == {"note", "word"}  # noqa: S301
    assert batched(mechanism, text="note")({"note": []}) == {"note": []}


def test_each_word_is_drawn_by_the_mechanism(mechanism):
    made = batched(mechanism, text="t")({"t": ["left"] * 4000})["t"]
    shares = [made.count(name) / 4000 for name in NAMES]
    assert shares == pytest.approx(mechanism.probabilities[0].tolist(), abs=0.04)


def test_separators_in_a_text_do_not_move_words_to_another(mechanism):
    made = batched(mechanism, text="t")({"t": ["left\x1eright", "left"]})["t"]
    assert [len(text.split()) for text in made] == [2, 1]


@pytest.mark.parametrize("text", ["secretword", "alone"])
def test_what_is_not_protected_is_refused_dropped_or_masked(mechanism, text):
    batch = {"t": ["left\nleft", f"left {text} right"]}
    with pytest.raises(mdp.InputError, match="the column 't' .* the first in entry 2") as caught:
        batched(mechanism, text="t")(batch)
    assert text not in str(caught.value).replace("alone", "", 1) or text == "alone"
    dropped = batched(mechanism, text="t", unknown="drop")(batch)["t"]
    assert [len(one.split()) for one in dropped] == [2, 2]
    masked = batched(mechanism, text="t", unknown="mask")(batch)["t"]
    assert masked[1].split()[1] == "<unk>"


@pytest.mark.parametrize(
    ("settings", "batch", "part"),
    [
        ({}, None, "no column"),
        ({"text": "t", "ids": "t"}, None, "choose one"),
        ({"text": "t", "unknown": "keep"}, None, "policy"),
        ({"text": "t"}, {"other": ["left"]}, "no column 't'"),
        ({"text": "t"}, {"t": ["left", None]}, "entry 2"),
        ({"ids": "t"}, {"t": ["left", "alone"]}, "neighbour"),
    ],
)
def test_bad_use(mechanism, settings, batch, part):
    with pytest.raises(mdp.InputError, match=part):
        batched(mechanism, **settings)(batch)


def test_hugging_face_datasets(mechanism, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")  # read when it is imported, as the folder is
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    import datasets

    given = datasets.Dataset.from_dict({"t": ["left right", "middle"] * 50, "n": list(range(100))})
    made = given.map(batched(mechanism, text="t"), batched=True, batch_size=30)
    assert list(made["n"]) == list(range(100))
    assert [len(text.split()) for text in made["t"]] == [2, 1] * 50
    assert set(" ".join(made["t"]).split()) <= set(NAMES)
    assert list(made["t"]) != list(given["t"])
