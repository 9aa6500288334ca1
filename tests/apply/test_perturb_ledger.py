"""Files whose persons are charged first: everyone or no one, and never a report that was not paid for."""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import stat
import subprocess
import sys
import threading

import pytest

import metricdp as mdp
from metricdp.apply import files, perturb_file
from metricdp.budget import charging

PLACES = "user,lat,lon,id\nAna,57.7001,11.97,u1\nBen,57.7202,11.97,u2\nAna,57.71,11.97,u3\n"
IDS = "id,user\na,Ana\nb,Ben\nc,Ana\n"
EPSILON = 200.0


@pytest.fixture(scope="module")
def city():
    """Three places about a kilometre apart, each its own report."""
    records = mdp.Records([[57.70, 11.97], [57.71, 11.97], [57.72, 11.97]], ids=["a", "b", "c"])
    return mdp.exponential(mdp.Problem(records, epsilon=EPSILON, eta=1.5, outputs=3, loss="distance"))


@pytest.fixture
def perturb(run, city, tmp_path):
    """Run `metricdp perturb city.mdp --input in.csv --output out.csv --ledger budget.db --person user`."""
    city.save("city.mdp")
    (tmp_path / "in.csv").write_text(IDS)
    words = ("--input", "in.csv", "--output", "out.csv", "--ledger", "budget.db", "--person", "user")
    return functools.partial(run, "perturb", "city.mdp", *words)


def rows_of(path):
    return list(csv.reader(io.StringIO(path.read_bytes().decode(), newline="")))


def spent_in(path, **options):
    ledger = mdp.Ledger(path, must_exist=True, **options)
    return ledger.spent("Ana"), ledger.spent("Ben")


def test_the_ledger_must_exist_or_be_made_on_purpose(perturb, tmp_path):
    code, _, complaint = perturb()
    assert code == 2
    assert (
        "the ledger budget.db does not exist: put it back if it was lost, or make it with --limit EPSILON" in complaint
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["city.mdp", "in.csv"]
    code, text, _ = perturb("--new-ledger", 800)
    assert code == 0
    assert "3 were charged to 2 persons in" in text
    assert spent_in("budget.db") == (400.0, 200.0)
    code, _, complaint = perturb("--new-ledger", 800)
    assert code == 2
    assert "--new-ledger would begin anew, but budget.db exists" in complaint
    assert perturb()[0] == 0
    assert spent_in("budget.db") == (800.0, 400.0)


@pytest.mark.parametrize(
    "words",
    [("--limit", 0.5), ("--new-ledger", 0.5), ("--limit", 800, "--person", "usr"), ("--limit", 800, "--keep", "x")],
)
@pytest.mark.parametrize("way", ["file", "stream"])
def test_a_mistaken_first_run_leaves_no_ledger(run, perturb, monkeypatch, tmp_path, words, way):
    if way == "file":
        assert perturb(*words)[0] in (1, 2)
    else:
        monkeypatch.chdir(tmp_path)
        done = subprocess.run(
            [sys.executable, "-m", "metricdp", "perturb", "city.mdp", "-", "--person", "user", "--ledger", "budget.db"]
            + [str(word) for word in words],
            input=IDS.encode(),
            capture_output=True,
            check=False,
        )
        assert (done.returncode, done.stdout) in {(1, b""), (2, b"")}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["city.mdp", "in.csv"]
    code, _, told = perturb("--limit", 800)
    assert code == 0
    assert "New ledger budget.db" in told
    assert spent_in("budget.db") == (400.0, 200.0)


def test_the_limit_is_changed_in_the_shell(perturb, tmp_path):
    assert perturb("--limit", 400)[0] == 0
    code, _, complaint = perturb("--limit", 800)
    assert code == 2
    assert "has the limit 400, not 800: leave --limit out to charge it as it is, or add --change-limit" in complaint
    assert perturb("--change-limit")[0] == 2
    assert spent_in("budget.db") == (400.0, 200.0)
    refused = perturb("--limit", 800, "--change-limit", "--keep", "nothing")
    assert refused[0] == 2
    assert "from now on" not in refused[2]
    assert mdp.Ledger(tmp_path / "budget.db", must_exist=True).limit == 400, "a refused run changes nothing"
    code, _, told = perturb("--limit", 800, "--change-limit")
    assert code == 0
    assert "is 800 from now on, for everyone; it was 400" in told
    assert spent_in("budget.db") == (800.0, 400.0)
    assert mdp.Ledger(tmp_path / "budget.db", must_exist=True).limit == 800
    assert perturb("--limit", 0)[0] == 2
    (tmp_path / "budget.db").unlink()
    code, _, complaint = perturb("--limit", 800, "--change-limit")
    assert code == 2
    assert "does not exist" in complaint


def test_the_person_is_not_written_unless_kept(perturb, tmp_path):
    assert perturb("--new-ledger", 9000)[0] == 0
    assert rows_of(tmp_path / "out.csv")[0] == ["report", "lat", "lon"]
    assert b"Ana" not in (tmp_path / "out.csv").read_bytes()
    code, text, _ = perturb("--keep", "user", "--json")
    assert code == 0
    assert (json.loads(text)["persons"], json.loads(text)["reports"]) == (2, 3)
    assert [row[-1] for row in rows_of(tmp_path / "out.csv")] == ["user", "Ana", "Ben", "Ana"]


def test_no_one_is_charged_and_nothing_written_if_one_budget_does_not_suffice(perturb, tmp_path):
    mdp.Ledger("budget.db", limit=300.0)
    code, text, complaint = perturb()
    assert (code, text) == (1, "")
    assert "the budgets of 1 of 2 holders do not suffice: nothing was recorded for anyone" in complaint
    assert "Ana" not in complaint
    assert "300" not in complaint
    assert "('Ana')" in perturb("--show-values")[2]
    assert not (tmp_path / "out.csv").exists()
    assert spent_in("budget.db") == (0.0, 0.0)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (IDS + "nowhere,Ana\n", (), "record"),
        (IDS + "a,\n", (), "row 4 has no person in 'user': give every row a name"),
        (IDS + "a,Ana,7\n", (), "line 5 has 3 cells"),
        ("id,name\na,Ana\n", (), "has no column 'user'; it has 'id' and 1 more: name one column"),
        (PLACES + "Ben,59.0,11.97,u4\n", ("--snap-limit", 0.1), "1 of 4 places are farther than 0.1"),
        (IDS, ("--person", "id"), "the column id names the true records"),
    ],
)
def test_what_is_refused_costs_nothing(perturb, tmp_path, content, options, message):
    mdp.Ledger("budget.db", limit=9000.0)
    (tmp_path / "in.csv").write_text(content)
    code, _, complaint = perturb(*options)
    assert code == 2
    assert message in complaint
    assert not (tmp_path / "out.csv").exists()
    assert spent_in("budget.db") == (0.0, 0.0)


def test_places_that_are_dropped_are_charged(perturb, tmp_path):
    (tmp_path / "in.csv").write_text(PLACES + "Ben,59.0,11.97,u4\n")
    words = ("--snap-limit", 0.1, "--far", "drop", "--allow-unprotected", "--snap-distances", "notes.csv")
    code, text, complaint = perturb("--new-ledger", 9000, *words)
    assert code == 0, complaint
    assert "3 reports" in text
    assert "4 were charged to 2 persons" in text
    assert len(rows_of(tmp_path / "notes.csv")) == 5
    assert spent_in("budget.db") == (400.0, 400.0)


def test_geojson_names_persons_by_a_property(run, city, tmp_path):
    city.save("city.mdp")
    place = {"type": "Point", "coordinates": [11.97, 57.7]}
    names = ["Ren\u00e9", "Rene\u0301", 7, "7"]
    features = [{"type": "Feature", "id": "a", "geometry": place, "properties": {"user": name}} for name in names]
    words = ("--input", "in.geojson", "--output", "out.geojson", "--ledger", "budget.db", "--person", "user")
    (tmp_path / "in.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    assert run("perturb", "city.mdp", *words, "--new-ledger", 9000)[0] == 0
    ledger = mdp.Ledger("budget.db", must_exist=True)
    assert ledger.holders() == ["7", "Ren\u00e9"]
    assert ledger.spent("7") == ledger.spent("Ren\u00e9") == 2 * EPSILON
    for wrong in (None, True, 1.5, [], ""):
        features[0]["properties"]["user"] = wrong
        (tmp_path / "in.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
        code, _, complaint = run("perturb", "city.mdp", *words)
        assert code == 2
        assert "row 1 has no person in 'user'" in complaint
    assert ledger.check() == 2


def test_a_key_is_made_with_the_ledger_and_needed_from_then_on(perturb, tmp_path):
    (tmp_path / "private").mkdir()
    words = ("--ledger-key", "private/key")
    assert perturb(*words, "--new-ledger", 9000)[0] == 0
    assert stat.S_IMODE((tmp_path / "private" / "key").stat().st_mode) == 0o600
    assert sorted(path.name for path in (tmp_path / "private").iterdir()) == ["key", "key.budget.db.head"]
    copy = (tmp_path / "budget.db").read_bytes()
    assert perturb(*words)[0] == 0
    assert spent_in("budget.db", key=tmp_path / "private" / "key") == (800.0, 400.0)
    code, _, complaint = perturb()
    assert code == 2
    assert "made with another key" in complaint
    (tmp_path / "budget.db").write_bytes(copy)
    code, _, complaint = perturb(*words)
    assert code == 2
    assert "older copy" in complaint
    (tmp_path / "budget.db").unlink()
    code, _, complaint = perturb(*words, "--new-ledger", 9000)
    assert code == 2
    assert "tells of its charges: put the ledger back" in complaint


@pytest.mark.parametrize(
    "words", [("--ledger", "b.db"), ("--person", "user"), ("--new-ledger", 1), ("--ledger-key", "key")]
)
def test_options_that_go_together(run, city, tmp_path, words):
    city.save("city.mdp")
    (tmp_path / "in.csv").write_text(IDS)
    code, _, complaint = run("perturb", "city.mdp", "--input", "in.csv", "--output", "out.csv", *words)
    assert code == 2
    assert "--ledger FILE (or --limit EPSILON) and --person COLUMN go together" in complaint
    code, _, complaint = run("perturb", "city.mdp", "a", *words)
    assert code == 2
    assert f"{words[0]} goes with --input FILE" in complaint


def test_the_output_is_not_the_ledger(perturb, tmp_path):
    mdp.Ledger("budget.db", limit=9000.0)
    before = (tmp_path / "budget.db").read_bytes()
    code, _, complaint = perturb("--output", "budget.db")
    assert code == 2
    assert "both name budget.db" in complaint
    assert (tmp_path / "budget.db").read_bytes() == before


def test_a_pipe_cannot_be_read_twice(city, tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    ledger = mdp.Ledger(tmp_path / "budget.db", limit=9000.0)
    with pytest.raises(mdp.InputError, match="is read twice to charge before drawing, and is not a file: save it"):
        perturb_file(city, pipe, tmp_path / "out.csv", ledger=ledger, person="user")
    writer = threading.Thread(target=pipe.write_text, args=(IDS,))
    writer.start()
    assert perturb_file(city, pipe, tmp_path / "out.csv").persons is None  # without a ledger it can
    writer.join()


def test_a_ledger_and_a_column_go_together(city, tmp_path):
    (tmp_path / "in.csv").write_text(IDS)
    ledger = mdp.Ledger(tmp_path / "budget.db", limit=9000.0)
    for options in ({"ledger": ledger}, {"person": "user"}):
        with pytest.raises(mdp.InputError, match="go together: give both"):
            perturb_file(city, tmp_path / "in.csv", tmp_path / "out.csv", **options)


def test_a_file_that_changes_before_the_charge(city, tmp_path, monkeypatch):
    source = tmp_path / "in.csv"
    source.write_text(IDS)
    ledger = mdp.Ledger(tmp_path / "budget.db", limit=9000.0)
    check = charging.Persons.check

    def changing(self):
        source.write_text(IDS + "a,Ana\n")
        check(self)

    monkeypatch.setattr(charging.Persons, "check", changing)
    with pytest.raises(mdp.InputError, match="the file changed while it was read: nothing was written"):
        perturb_file(city, source, tmp_path / "out.csv", ledger=ledger, person="user")
    assert ledger.holders() == []
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize("content", [IDS + "a,Ana\n", IDS.replace("b,Ben", "b,Ana"), IDS.replace("Ben", "Cleo")])
def test_a_file_that_changes_after_the_charge(city, tmp_path, monkeypatch, content):
    source = tmp_path / "in.csv"
    source.write_text(IDS)
    ledger = mdp.Ledger(tmp_path / "budget.db", limit=9000.0)
    charge = ledger.charge_many

    def changing(*arguments):
        charge(*arguments)
        source.write_text(content)

    monkeypatch.setattr(ledger, "charge_many", changing)
    with pytest.raises(mdp.InputError, match=r"the file changed.*The 2 persons stay charged"):
        perturb_file(city, source, tmp_path / "out.csv", ledger=ledger, person="user")
    assert ledger.spent("Ana") == 2 * EPSILON
    assert sorted(path.name for path in tmp_path.iterdir()) == ["budget.db", "in.csv"]


def test_the_charge_is_on_the_disk_before_anything_is_written(city, tmp_path, monkeypatch):
    (tmp_path / "in.csv").write_text(IDS)
    ledger = mdp.Ledger(tmp_path / "budget.db", limit=9000.0)
    spent = []
    replacing = files.replacing

    def watching(path, **options):
        spent.append(mdp.Ledger(ledger.path, must_exist=True).spent("Ana"))
        return replacing(path, **options)

    monkeypatch.setattr(files, "replacing", watching)
    perturb_file(city, tmp_path / "in.csv", tmp_path / "out.csv", ledger=ledger, person="user")
    assert spent == [2 * EPSILON]


def test_a_ledger_of_another_metric_is_refused(perturb, tmp_path):
    plane = mdp.exponential(mdp.Problem(mdp.data.grid(2, 2), epsilon=1.0, eta=3.0))
    mdp.Ledger("budget.db", limit=9000.0).charge_for("Ana", plane)
    code, _, complaint = perturb()
    assert code == 2
    assert "counts epsilon for the metric euclidean" in complaint
    assert not (tmp_path / "out.csv").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["--output", "spent.db", "--ledger", "spent.db", "--new-ledger", 800],
        ["--output", "key", "--ledger", "spent.db", "--ledger-key", "key", "--new-ledger", 800],
        ["--output", "key.spent.db.head", "--ledger", "spent.db", "--ledger-key", "key", "--new-ledger", 800],
    ],
)
def test_reports_never_take_the_place_of_the_ledger_or_its_key(run, city, tmp_path, words):
    city.save("city.mdp")
    (tmp_path / "in.csv").write_text(IDS)
    code, _, complaint = run("perturb", "city.mdp", "--input", "in.csv", "--person", "user", *words)
    assert code == 2
    assert "both name" in complaint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["city.mdp", "in.csv"]


def test_a_name_that_was_quoted_for_spreadsheets_is_the_same_person(perturb, tmp_path):
    (tmp_path / "in.csv").write_text("id,user\na,@ana\n")
    assert perturb("--new-ledger", 9000, "--keep", "user")[0] == 0
    kept = rows_of(tmp_path / "out.csv")[1][-1]
    assert kept == "'@ana"
    (tmp_path / "in.csv").write_text(f"id,user\na,{kept}\n")
    assert perturb()[0] == 0
    assert mdp.Ledger("budget.db", must_exist=True).spent("@ana") == 2 * EPSILON


@pytest.mark.parametrize(
    "content", ["Storgatan 12 Anna Svensson\n", "57.7066N,11.9672E\n", "x,57.7066,11.9672\n", "home,Anna\na,b\n"]
)
@pytest.mark.parametrize("words", [[], ["--snap-limit", 1]])
def test_a_file_without_a_header_is_not_shown(run, city, tmp_path, content, words):
    city.save("city.mdp")
    (tmp_path / "in.csv").write_text(content)
    code, _, complaint = run("perturb", "city.mdp", "--input", "in.csv", "--output", "out.csv", *words)
    assert code == 2
    assert not any(part in complaint for part in ("Storgatan", "Anna", "57.7", "11.96"))
