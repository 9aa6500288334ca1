"""Texts: words of the vocabulary are drawn, nothing else comes out unasked, and the budget is counted."""

from __future__ import annotations

import functools
import gzip
import json
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import metricdp as mdp
from metricdp.apply import perturb_text
from metricdp.apply.text import MASK
from metricdp.data.readers import streams

VOCABULARY = ["alpha", "beta", "don't", "well", "known", "u.s.", "7", "Ärger", "new york", "lonely"]


@pytest.fixture(scope="module")
def mechanism():
    """Words on a line, epsilon so large that each is its own report; the last one has no neighbour."""
    places = [*range(len(VOCABULARY) - 1), 100]
    records = mdp.Records(np.array(places, dtype=float), ids=VOCABULARY, kind="vectors", name="words")
    return mdp.solve(mdp.Problem(records, epsilon=60.0, eta=1.0, outputs=len(VOCABULARY))).mechanism


@pytest.fixture(scope="module")
def private():
    """The same words with a small budget: reports are nearly uniform."""
    records = mdp.Records(np.arange(4.0), ids=["alpha", "beta", "gamma", "delta"], kind="vectors")
    return mdp.exponential(mdp.Problem(records, epsilon=0.1, eta=1.0, outputs=4))


def perturbed(mechanism, tmp_path, text, **options):
    (tmp_path / "in.txt").write_text(text, encoding="utf-8", newline="")
    summary = perturb_text(mechanism, tmp_path / "in.txt", tmp_path / "out.txt", **options)
    return (tmp_path / "out.txt").read_bytes().decode(), summary


@pytest.mark.parametrize(
    ("text", "dropped", "masked"),
    [
        ("alpha beta\n", "alpha beta\n", "alpha beta\n"),
        ("Alpha, BETA!\n", "alpha beta\n", "alpha beta\n"),
        ("alpha Bob beta", "alpha beta", f"alpha {MASK} beta"),
        ("alpha 1984 beta 7", "alpha beta 7", f"alpha {MASK} beta 7"),
        ("Don't don’t", "don't don't", "don't don't"),
        ("alpha's", "", MASK),
        ("well-known", "well known", "well known"),
        ("in the U.S.", "u.s.", f"{MASK} {MASK} u.s."),
        ("(u.s.).", "u.s.", "u.s."),
        ("A\u0308RGER ärger Ärger", "Ärger", f"{MASK} {MASK} Ärger"),
        ("alpha \t  beta\r\n\r\n  well\rknown", "alpha beta\n\nwell\nknown", "alpha beta\n\nwell\nknown"),
        ("alpha€ 🙂 bob@well.known", "well known", f"{MASK} {MASK} {MASK} well known"),
        ("alpha\u200bbeta", "", MASK),
        ("... — !?\nalpha", "\nalpha", "\nalpha"),
        ("new york", "", f"{MASK} {MASK}"),
    ],
)
def test_what_comes_out(mechanism, tmp_path, text, dropped, masked):
    assert perturbed(mechanism, tmp_path, text, unknown="drop")[0] == dropped
    assert perturbed(mechanism, tmp_path, text, unknown="mask")[0] == masked


@pytest.mark.parametrize(
    ("text", "policy", "kept"),
    [
        ('"Alpha," beta (well-known)!', "mask", '"alpha," beta (well-known)!'),
        ("alpha@beta #7 100%", "mask", f"alpha beta 7 {MASK}"),
        ("alpha, Bob, beta.", "drop", "alpha, beta."),
        ("alpha (Bob beta)", "mask", f"alpha ({MASK} beta)"),
        ("alpha -- beta…", "drop", "alpha -- beta…"),
    ],
)
def test_punctuation_that_is_kept(mechanism, tmp_path, text, policy, kept):
    assert perturbed(mechanism, tmp_path, text, unknown=policy, keep_punctuation=True)[0] == kept


def test_counts(mechanism, tmp_path):
    _, summary = perturbed(mechanism, tmp_path, "Alpha, Bob. lonely lonely 12-13", unknown="drop")
    assert (summary.words, summary.unknown, summary.unprotected, summary.punctuation) == (1, 3, 2, 3)
    text, summary = perturbed(mechanism, tmp_path, "alpha lonely", allow_unprotected=True)
    assert (text, summary.words, summary.unprotected) == ("alpha lonely", 2, 1)


@pytest.mark.parametrize("text", ["alpha\nalpha Bob beta 99", "alpha\nalpha lonely beta lonely"])
def test_refusing_is_the_default_and_names_no_word(mechanism, tmp_path, text):
    with pytest.raises(mdp.InputError, match="2 of 5 words .* the first in line 2: nothing was written") as caught:
        perturbed(mechanism, tmp_path, text)
    assert not re.search("Bob|99|lonely", str(caught.value))
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_a_word_without_neighbours_is_hidden_like_an_unknown_one(mechanism, tmp_path):
    assert perturbed(mechanism, tmp_path, "alpha lonely beta", unknown="mask")[0] == f"alpha {MASK} beta"


def test_each_word_has_a_draw_of_its_own(private, tmp_path):
    text, summary = perturbed(private, tmp_path, "alpha " * 4000)
    counts = [text.split().count(word) for word in private.records.ids]
    assert summary.words == sum(counts) == 4000
    # far outside what chance allows: 4000 draws with each probability between 0.2 and 0.3
    assert all(500 < count < 1600 for count in counts)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    text=st.text(
        st.one_of(st.characters(codec="utf-8"), st.sampled_from([*"alphbetwknov7.,'-’ \n\t\u200b"])), max_size=60
    ),
    policy=st.sampled_from(["drop", "mask"]),
    is_kept=st.booleans(),
)
def test_nothing_but_the_vocabulary_ever_comes_out(mechanism, tmp_path, text, policy, is_kept):
    """Whatever goes in: what comes out is words of the vocabulary, masks, line breaks and, if asked, a few marks."""
    shown, _ = perturbed(mechanism, tmp_path, "x" + text, unknown=policy, keep_punctuation=is_kept)
    allowed = "|".join(map(re.escape, [*mechanism.records.ids, MASK, " ", "\n"]))
    marks = r"|[.,;:!?…()\-–—\"'“”‘’„«»¿¡]" if is_kept else ""
    assert re.fullmatch(f"(?:{allowed}{marks})*", shown)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64])
def test_pieces_cut_no_word(mechanism, tmp_path, monkeypatch, size):
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", size)
    text = "alpha  beta\nwell-known\n\ndon't Bob, 7\u2003alpha"
    assert perturbed(mechanism, tmp_path, text, unknown="mask")[0] == (
        f"alpha beta\nwell known\n\ndon't {MASK} 7 alpha"
    )


def test_memory_does_not_grow_with_the_text(private, tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "BYTES_AT_ONCE", 1 << 12)
    peaks = []
    for n_lines in (2_000, 40_000):
        (tmp_path / "in.txt").write_text("alpha beta, gamma delta\n" * n_lines)
        tracemalloc.start()
        perturb_text(private, tmp_path / "in.txt", tmp_path / "out.txt")
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (tmp_path / "out.txt").read_text().count("\n") == 40_000
    assert peaks[1] < 1.5 * peaks[0]
    assert peaks[1] < (tmp_path / "in.txt").stat().st_size / 2


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"alpha\nbeta \xff", "line 2 is not UTF-8 text"),
        (b"", "empty"),
        (b"\x1f\x8bnothing", "damaged gzip"),
        (gzip.compress(b"alpha " * 10000)[:-20], "damaged gzip"),
        (b"x" * 700_000, "more than 65,536 characters"),
    ],
)
def test_bad_texts(mechanism, tmp_path, content, part):
    (tmp_path / "in.txt").write_bytes(content)
    with pytest.raises(mdp.InputError, match=part):
        perturb_text(mechanism, tmp_path / "in.txt", tmp_path / "out.txt", unknown="drop")
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_packed_texts_and_byte_order_marks(mechanism, tmp_path):
    (tmp_path / "in.txt").write_bytes(gzip.compress(b"\xef\xbb\xbfalpha beta"))
    assert perturb_text(mechanism, tmp_path / "in.txt", tmp_path / "out.txt").words == 2
    assert (tmp_path / "out.txt").read_text() == "alpha beta"


def test_bad_options(mechanism, tmp_path):
    with pytest.raises(mdp.InputError, match="unknown policy 'keep'.*refuse, drop or mask"):
        perturbed(mechanism, tmp_path, "alpha", unknown="keep")
    points = mdp.exponential(mdp.Problem(np.arange(3.0), epsilon=1.0, eta=1.0, outputs=[[0.5], [1.5]]))
    with pytest.raises(mdp.InputError, match="points without words"):
        perturbed(points, tmp_path, "0 1")


@pytest.fixture
def perturb(run, mechanism):
    """Run `metricdp perturb words.mdp`."""
    mechanism.save("words.mdp")
    return functools.partial(run, "perturb", "words.mdp")


def test_the_command_prints_the_budget(perturb, tmp_path):
    (tmp_path / "in.txt").write_text("Alpha, beta Bob lonely")
    words = ["--text", "in.txt", "--output", "out.txt"]
    code, text, complaint = perturb(*words)
    assert (code, text) == (2, "")
    assert "2 of 4 words" in complaint
    assert complaint.count("\n") == 1
    code, text, complaint = perturb(*words, "--unknown", "drop")
    assert code == 0
    assert (tmp_path / "out.txt").read_text() == "alpha beta"
    assert "2 words x epsilon 60 = 120 per unit of distance" in text
    assert "2 words dropped: 1 outside the vocabulary, 1 without any neighbour in it" in text
    assert "2 components" in complaint
    code, text, complaint = perturb(*words, "--unknown", "mask", "--allow-unprotected", "--json")
    assert code == 0
    assert json.loads(text) == {
        "words": 3,
        "unknown": 1,
        "unprotected": 1,
        "punctuation": 1,
        "policy": "mask",
        "epsilon": 60.0,
        "budget": 180.0,
        "file": "out.txt",
    }
    assert "NOT PROTECTED: 1 reports" in complaint


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--text", "in.txt"], "--text FILE and --output FILE"),
        (["--text", "in.txt", "--input", "in.txt", "--output", "out.txt"], "give either record ids"),
        (["alpha", "--output", "out.txt"], "give either record ids"),
        (["alpha", "--unknown", "drop"], "--unknown goes with --text FILE"),
        (["--input", "in.txt", "--output", "out.txt", "--keep-punctuation"], "--keep-punctuation goes with --text"),
        (["--text", "in.txt", "--output", "out.txt", "--snap-limit", "1"], "--snap-limit goes with --input"),
        (["--text", "in.txt", "--output", "out.txt", "--keep", "a"], "--keep goes with --input"),
        (["--text", "in.txt", "--output", "in.txt"], "both name"),
        (["--text", "in.txt", "--output", "out.txt", "--unknown", "pass"], "unknown policy 'pass'"),
        (["--text", "none.txt", "--output", "out.txt"], "there is no file none.txt"),
    ],
)
def test_options_that_do_not_go_together(perturb, tmp_path, words, part):
    (tmp_path / "in.txt").write_text("alpha")
    code, text, complaint = perturb(*words)
    assert (code, text) == (2, "")
    assert part in complaint
    assert complaint.count("\n") == 1
    assert not (tmp_path / "out.txt").exists()


def test_a_text_named_gz_is_packed(mechanism, tmp_path):
    (tmp_path / "in.txt").write_text("alpha beta\n")
    perturb_text(mechanism, tmp_path / "in.txt", tmp_path / "out.v1.txt.gz")
    assert gzip.decompress((tmp_path / "out.v1.txt.gz").read_bytes()) == b"alpha beta\n"
