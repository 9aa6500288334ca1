"""Every script in examples/ runs from an empty folder; the journeys end with what they promise."""

from __future__ import annotations

import csv
import importlib
import math
import re
import struct
import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import metricdp as mdp

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def said_by(name, folder):
    """Run an example in a folder; return all that it prints, its log included."""
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def files_in(folder):
    return {path.name for path in folder.iterdir()}


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def nowhere(folder, texts, numbers, said, *, but=()):
    """Check that none of the secrets is in what was said or in a file: as text, or as a binary number."""
    forms = {form for number in numbers for form in (repr(number), f"{number:.6f}")}
    written = re.compile(b"(?:" + "|".join(map(re.escape, [*texts, *forms])).encode() + rb")(?![0-9])")
    binary = [struct.pack(order, number) for number in numbers for order in ("<d", ">d")]
    contents = {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in but}
    contents["what was said"] = said.encode()
    for name, content in contents.items():
        assert not written.search(content), name
        assert not [number for number in binary if number in content], name


@pytest.mark.parametrize("name", ["city", "own_distance_and_loss", "float_noise"])
def test_an_example_runs(name, tmp_path):
    said = said_by(name, tmp_path)
    assert re.search(r"satisf(y|ies) epsilon = .* exactly", said)
    assert "NOT PRIVATE" not in said


def test_every_example_is_tested():
    journeys = {"mobility_stream", "word_researcher", "privacy_researcher", "service_developer"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == journeys | {"city", "own_distance_and_loss", "float_noise"}


def test_a_mobility_engineer_gets_a_private_stream_and_a_heat_map(tmp_path):
    said = said_by("mobility_stream", tmp_path)
    assert files_in(tmp_path) == {"gps.csv", "city.mdp", "city.mdp.ledger", "reports.csv"}
    mechanism, raw = mdp.load(tmp_path / "city.mdp"), rows_of(tmp_path / "gps.csv")
    assert mechanism.certificate.privacy.certified
    assert mechanism.certificate.lines()[0] in said
    # each of 40 people gave six points, and five reports a day are within the budget
    reports = rows_of(tmp_path / "reports.csv")
    assert (len(raw), len(reports)) == (240, 200)
    assert list(reports[0]) == ["report", "lat", "lon"]
    assert {row["report"] for row in reports} <= set(mechanism.outputs.ids(mechanism.records))
    assert "40 rows were dropped because the budgets of their persons are used up." in said
    with mdp.Ledger(tmp_path / "city.mdp.ledger", must_exist=True) as ledger:
        for person in {row["person"] for row in raw}:
            assert ledger.exactly_spent(person) == 5 * Fraction(mechanism.epsilon)
            assert ledger.remaining(person) < mechanism.epsilon
    table = said[said.index("  lat  lon") :].splitlines()[1:]
    assert sum(int(count) for line in table for count in line.split()[1:]) == 200
    nowhere(tmp_path, [], [float(row[axis]) for row in raw for axis in ("lat", "lon")], said, but=["gps.csv"])


def test_a_language_researcher_gets_a_private_text(tmp_path):
    said = said_by("word_researcher", tmp_path)
    assert files_in(tmp_path) == {"vectors.txt", "note.txt", "words.mdp", "private.txt"}
    mechanism = mdp.load(tmp_path / "words.mdp")
    assert mechanism.certificate.privacy.certified
    vocabulary = {line.split()[0] for line in (tmp_path / "vectors.txt").read_text(encoding="utf-8").splitlines()}
    assert set(mechanism.records.ids) == vocabulary
    lines = (tmp_path / "private.txt").read_text(encoding="utf-8").splitlines()
    assert [len(line.split()) for line in lines] == [6, 8]  # the name is no word of the vocabulary
    assert set(" ".join(lines).split()) <= vocabulary
    assert "14 words drawn, 1 outside the vocabulary left out" in said
    # the optimum is the best of the three, and both tables are proved to be private
    loss = dict(re.findall(r"^([a-z -]+?) +loss ([0-9.]+)", said, re.MULTILINE))
    assert set(loss) == {"this mechanism", "truncated-exponential", "multivariate-laplace"}
    assert min(loss, key=lambda name: float(loss[name])) == "this mechanism"
    verdicts = re.findall(r" loss .*?((?:NOT )?certified)", said, re.IGNORECASE)
    assert verdicts == ["certified", "certified", "NOT CERTIFIED"]
    nowhere(tmp_path, ["Wilhelmina", "wilhelmina"], [], said, but=["note.txt"])


def test_a_privacy_researcher_gets_the_exact_epsilon_of_a_file(tmp_path):
    said = said_by("privacy_researcher", tmp_path)
    assert files_in(tmp_path) == {"points.csv", "theirs.csv", "repaired.mdp"}
    # the truth with 1/8 + 7/128, another point with 7/128: the float that is just not below ln(23/7)
    epsilon = float(re.search(r"Tightest epsilon that holds: (\S+) \(the float", said)[1])
    with localcontext(prec=50):
        assert Decimal(math.nextafter(epsilon, 0.0)) < (Decimal(23) / 7).ln() <= Decimal(epsilon)
    # each of 16 points has its own output, which its 4-neighbours report too seldom: 24 pairs, both ways
    assert "NOT PRIVATE at epsilon = 1: 48 of 1,344 constraints" in said
    repaired = mdp.load(tmp_path / "repaired.mdp")
    assert repaired.certificate.privacy.certified
    assert repaired.epsilon == 1.0
    assert repaired.certificate.lines()[0] in said
    verdicts = dict(re.findall(r"^(\S+) +loss .* epsilon 1 (holds|does NOT hold)$", said, re.MULTILINE))
    assert verdicts == {
        "theirs": "does NOT hold",
        "repaired": "holds",
        "optimal": "holds",
        "exponential": "holds",
        "planar-laplace": "does NOT hold",
    }
    pattern = r"^epsilon (\S+) +(\S+) +loss (\S+), lower bound (\S+), (holds|does NOT hold)$"
    swept = {(float(at), name): rest for at, name, *rest in re.findall(pattern, said, re.MULTILINE)}
    assert set(swept) == {(at, name) for at in (0.5, 1.0, 2.0) for name in ("theirs", "optimal")}
    for (at, name), (loss, bound, verdict) in swept.items():
        assert (verdict == "holds") == (name == "optimal" or at > epsilon)
        assert float(loss) >= float(bound)


def test_a_service_developer_gets_remembered_reports_until_a_budget_runs_out(tmp_path):
    said = said_by("service_developer", tmp_path)
    made = {"service.mdp", "spent.db", "service.key", "service.key.spent.db.head", "memory.db"}
    assert files_in(tmp_path) == {"places.csv", *made}
    mechanism, places = mdp.load(tmp_path / "service.mdp"), rows_of(tmp_path / "places.csv")
    assert mechanism.certificate.privacy.certified
    assert mechanism.certificate.lines()[0] in said
    assert mechanism.records.ids == tuple(row["id"] for row in places)
    # three places cost three reports, and asking again repeats the answer
    answers = re.findall(r"^report (.+), left (\S+)$", said, re.MULTILINE)
    assert [float(left) for _, left in answers] == [8.0, 4.0, 4.0, 4.0, 0.0]
    home = answers[0][0]
    assert home == answers[2][0] == answers[3][0]
    assert f"home is still answered: {home}; another person has 12 left" in said
    assert "refused: the budget of 'Ana' does not suffice" in said
    assert "service.mdp verified: True" in said
    key = tmp_path / "service.key"
    with mdp.Ledger(tmp_path / "spent.db", key=key, must_exist=True) as ledger:
        ledger.check()
        assert ledger.exactly_spent("Ana") == 12
        assert ledger.exactly_spent("Ben") == 0
    asked = [(float(row["lat"]) + 1.2345e-4, float(row["lon"]) - 2.3456e-4) for row in places[:40:10]]
    nowhere(tmp_path, [], [number for point in asked for number in point], said)
    for name in made:
        assert b"Ana" not in (tmp_path / name).read_bytes(), name


def test_the_low_bits_of_noise_in_floats_tell_who_it_was(monkeypatch):
    """The threat model says so: Bob can only give every 64th float near the corner, Alice gives nearly all others."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    float_noise = importlib.import_module("float_noise")
    monkeypatch.setattr(float_noise, "N", 400_000)
    rng = np.random.default_rng(1)
    alice, bob = (float_noise.noisy(who, rng) for who in (float_noise.ALICE, float_noise.BOB))
    assert min(len(alice), len(bob)) > 300
    assert float_noise.on_the_grid(bob) == 1.0
    assert float_noise.on_the_grid(alice) < 0.1
    assert float_noise.radius(np.array([np.nextafter(1.0, 0.0)]))[0] < 41.0
