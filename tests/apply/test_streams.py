"""Streams: the same rows in every format, small batches when little is there, and nothing that was not paid for."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections import Counter
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from benchmarks.stream_command import stream_of

import metricdp as mdp
from metricdp.apply import ReaderGoneError, perturb_file, perturb_stream
from metricdp.apply.stream_rows import FORMATS, format_of_start
from metricdp.apply.writers import arrow
from metricdp.budget import BudgetsExceededError, Ledger, Memoized
from metricdp.errors import FileFormatError, InputError, MissingExtraError

EPSILON = 200.0  # so large that every report is the record itself
PLACES = np.array([[57.7001, 11.97], [57.7202, 11.97], [57.71, 11.97], [57.7001, 11.97]])
PERSONS = ["Ana", "Ben", "Ana", "Cleo"]
REPORTS = ["a", "c", "b", "a"]


@pytest.fixture(scope="module")
def city():
    """Three places about a kilometre apart, each its own report."""
    records = mdp.Records([[57.70, 11.97], [57.71, 11.97], [57.72, 11.97]], ids=["a", "b", "c"])
    return mdp.exponential(mdp.Problem(records, epsilon=EPSILON, eta=1.5, outputs=3, loss="distance"))


def perturbed(mechanism, data, **options):
    target = io.BytesIO()
    summary = perturb_stream(mechanism, io.BytesIO(data), target, **options)
    return target.getvalue(), summary


def rows_of(name, data):
    """The report and the person in each row of a stream."""
    if name == "parquet":
        table = arrow()[1].read_table(io.BytesIO(data)).to_pydict()
        return list(zip(table["report"], table["person"], strict=True))
    lines = data.decode().replace("\r", "").removesuffix("\n").split("\n")  # splitlines splits at separators too
    if name == "csv":
        assert lines[0] == "report,lat,lon,person"
        return [(line.split(",")[0], line.split(",")[3]) for line in lines[1:]]
    if name == "geojsonseq":
        assert all(line.startswith("\x1e") for line in lines)
    objects = [json.loads(line.lstrip("\x1e")) for line in lines]
    if name != "jsonl":
        assert all(one["type"] == "Feature" and one["geometry"]["type"] == "Point" for one in objects)
        objects = [one["properties"] for one in objects]
    return [(one["report"], one["person"]) for one in objects]


@pytest.mark.parametrize("to", [None, *FORMATS])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format_in_and_out(city, name, to):
    data = stream_of(name, PLACES, PERSONS)
    made, summary = perturbed(city, data, snap_limit=0.5, keep=["person"], to=to)
    assert rows_of(to or name, made) == list(zip(REPORTS, PERSONS, strict=True))
    assert summary.reports == 4
    assert b"57.7001" not in made


@pytest.mark.parametrize("name", FORMATS)
def test_the_format_is_told_from_the_first_bytes(name):
    assert format_of_start(stream_of(name, PLACES, PERSONS)) == name


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b'{"type": "FeatureCollection", ', "one JSON text"),
        (b'[{"lat": 1}]', "one JSON text"),
        (b"\x1f\x8b\x08", "cannot be told"),
    ],
)
def test_what_is_no_stream_of_rows_is_refused(start, message):
    with pytest.raises(InputError, match=message):
        format_of_start(start)


def test_a_packed_stream_with_its_format_named(city):
    data = gzip.compress(stream_of("csv", PLACES, PERSONS))
    made, _ = perturbed(city, data, snap_limit=0.5, keep=["person"], format="csv")
    assert rows_of("csv", made) == list(zip(REPORTS, PERSONS, strict=True))


def test_a_stream_writes_what_a_file_would(city, tmp_path):
    (tmp_path / "in.csv").write_bytes(stream_of("csv", PLACES, PERSONS))
    perturb_file(city, tmp_path / "in.csv", tmp_path / "out.csv", snap_limit=0.5, keep=["person"])
    made, _ = perturbed(city, stream_of("csv", PLACES, PERSONS), snap_limit=0.5, keep=["person"])
    assert made == (tmp_path / "out.csv").read_bytes()


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("csv", "id\na\nb\n"),
        ("jsonl", '{"id": "a"}\n\n{"id": "b"}'),
        ("geojsonseq", '\x1e{"type":"Feature",\n"id":"a"}\n\x1e{"type":"Feature","id":"b"}\n'),
    ],
)
def test_records_by_their_ids(city, name, data):
    made, summary = perturbed(city, data.encode(), to="jsonl", format=name)
    assert [json.loads(line)["report"] for line in made.decode().splitlines()] == ["a", "b"]
    assert summary.largest_snap_distance is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("id\na\nhome\n", "line 3.*not a record"),
        ("lat,lon\n57.7,11.97\n", "no column id"),
        ('{"id": "a"}\n{"id": home}\n', "line 2 is not a JSON object"),
        ('{"id": "a"}\n[1]\n', "line 2 is not a JSON object"),
        ('{"id": "a"}\n{"ID": "b"}\n', "line 2.*not a record"),
        ('{"id": "a", "x": NaN}\n', "line 1 is not a JSON object"),
        ('{"type": "Feature", "id": "a"}\n{"id": "b"}\n', "line 2 is not a GeoJSON Feature"),
        ('\x1e{"type": "Feature",\n\x1e{"type": "Feature", "id": "a"}\n', "line 2 is not"),
        ('\x1e{"type": "Feature", "id": "a"', "ends within"),
        ("id\n", "no rows"),
    ],
)
def test_bad_rows_end_the_stream_and_are_not_shown(city, data, message):
    target = io.BytesIO()
    with pytest.raises(InputError, match=message) as error:
        perturb_stream(city, io.BytesIO(data.encode()), target)
    assert "home" not in str(error.value)
    assert target.getvalue() == b""


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"lat": 57.7, "lon": "x"}\n', "row 1, column 'lon' is not a finite number"),
        ('{"lat": 57.7, "lon": true}\n', "column 'lon'"),
        ('{"lat": 57.7, "lon": 11.97}\n{"lat": 57.7}\n', "row 2, column 'lon'"),
        ('{"lat": 1e999, "lon": 11.97}\n', "column 'lat'"),
    ],
)
def test_coordinates_must_be_numbers(city, data, message):
    with pytest.raises(InputError, match=message):
        perturbed(city, data.encode(), snap_limit=0.5)


def test_damaged_parquet_is_refused(city):
    whole = stream_of("parquet", PLACES, PERSONS)
    with pytest.raises(FileFormatError, match="not a whole Parquet file"):
        perturbed(city, whole[:-20], snap_limit=0.5)


def test_parquet_keeps_the_types_of_kept_columns(city):
    pyarrow, parquet = arrow()
    made = io.BytesIO()
    day = pyarrow.array([1, None], type=pyarrow.int16())
    parquet.write_table(pyarrow.table({"id": ["a", "b"], "day": day}), made)
    found, _ = perturbed(city, made.getvalue(), keep=["day"])
    table = parquet.read_table(io.BytesIO(found))
    assert table.column("day").type == pyarrow.int16()
    assert table.column("day").to_pylist() == [1, None]


def test_without_pyarrow_the_package_is_named(city, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtraError, match=r"pyarrow.*metricdp\[parquet\]"):
        perturbed(city, b"PAR1....")


def test_a_far_row_ends_the_stream_or_is_dropped(city):
    data = b"lat,lon\n57.7,11.97\n58.5,11.97\n57.71,11.97\n"
    with pytest.raises(InputError, match="row 2 is farther than 0.5"):
        perturbed(city, data, snap_limit=0.5)
    made, summary = perturbed(city, data, snap_limit=0.5, far="drop", to="jsonl")
    assert [json.loads(line)["report"] for line in made.decode().splitlines()] == ["a", "b"]
    assert (summary.reports, summary.far) == (2, 1)


def test_a_kept_column_with_the_secret_is_refused_before_it_is_written(city):
    data = b"id,home\na,a\nb,b\n"
    target = io.BytesIO()
    with pytest.raises(InputError, match="holds the true record"):
        perturb_stream(city, io.BytesIO(data), target, keep=["home"])
    assert target.getvalue() == b""


def test_budgets_stop_the_stream_or_drop_rows(city, tmp_path):
    ledger = Ledger(tmp_path / "spent.db", limit=2 * EPSILON)
    data = b"id,user\na,Ana\nb,Ana\nc,Ana\na,Ben\n"
    with pytest.raises(BudgetsExceededError):
        perturbed(city, data, ledger=ledger, person="user")
    assert ledger.holders() == []
    made, summary = perturbed(city, data, ledger=ledger, person="user", over="drop", to="jsonl")
    assert [json.loads(line)["report"] for line in made.decode().splitlines()] == ["a", "b", "a"]
    assert (summary.reports, summary.over) == (3, 1)
    assert (ledger.spent("Ana"), ledger.spent("Ben")) == (2 * EPSILON, EPSILON)


def test_far_rows_are_charged_as_well(city, tmp_path):
    ledger = Ledger(tmp_path / "spent.db", limit=10 * EPSILON)
    data = b"lat,lon,user\n58.5,11.97,Ana\n57.7,11.97,Ana\n"
    perturbed(city, data, snap_limit=0.5, far="drop", ledger=ledger, person="user")
    assert ledger.spent("Ana") == 2 * EPSILON


def test_charged_before_drawn_and_drawn_before_written(city, tmp_path, monkeypatch):
    """If the draw fails, the charge stays and nothing is written."""
    ledger = Ledger(tmp_path / "spent.db", limit=10 * EPSILON)
    seen, target = [], io.BytesIO()

    def fail(mechanism, rows, **options):
        seen.append((ledger.spent("Ana"), target.getvalue()))
        raise RuntimeError

    monkeypatch.setattr(mdp.Mechanism, "perturb_rows", fail)
    with pytest.raises(RuntimeError):
        perturb_stream(city, io.BytesIO(b"id,user\na,Ana\n"), target, ledger=ledger, person="user")
    assert seen == [(EPSILON, b"")]
    assert ledger.spent("Ana") == EPSILON
    assert target.getvalue() == b""


@pytest.fixture(scope="module")
def uncertain():
    """A mechanism whose reports differ from draw to draw."""
    return mdp.exponential(mdp.Problem(mdp.data.grid(4, 4), epsilon=0.01, eta=1.5))


def test_a_memory_repeats_its_answers_and_charges_only_new_ones(uncertain, tmp_path):
    ledger = Ledger(tmp_path / "spent.db", limit=1.0)
    memory = Memoized(uncertain, tmp_path / "memory.db", ledger=ledger)
    ids = list(uncertain.records.ids)
    data = ("id,user\n" + "".join(f"{name},Ana\n{name},Ben\n{name},Ana\n" for name in ids)).encode()
    first, _ = perturbed(uncertain, data, memory=memory, person="user", keep=["user"])
    second, summary = perturbed(uncertain, data, memory=memory, person="user", keep=["user"])
    assert first == second
    assert summary.reports == 3 * len(ids)
    assert ledger.exactly_spent("Ana") == len(ids) * ledger.exactly_spent("Ana") / 16 > 0
    lines = first.decode().splitlines()[1:]
    assert lines[0::3] == lines[2::3]
    assert [memory.perturb("Ana", name) for name in ids] == [line.split(",")[0] for line in lines[0::3]]


def test_a_memory_drops_only_new_answers_beyond_the_budget(uncertain, tmp_path):
    ledger = Ledger(tmp_path / "spent.db", limit=0.025)  # two answers
    memory = Memoized(uncertain, tmp_path / "memory.db", ledger=ledger)
    a, b, c = uncertain.records.ids[:3]
    data = f"id,user\n{a},Ana\n{b},Ana\n{c},Ana\n{a},Ana\n".encode()
    with pytest.raises(BudgetsExceededError):
        perturbed(uncertain, data, memory=memory, person="user")
    made, summary = perturbed(uncertain, data, memory=memory, person="user", over="drop")
    lines = made.decode().splitlines()[1:]
    assert (summary.reports, summary.over) == (3, 1)
    assert lines[0] == lines[2]
    assert perturbed(uncertain, data, memory=memory, person="user", over="drop")[0] == made


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"person": "user"}, "go together"),
        ({"over": "keep"}, "unknown policy"),
        ({"over": "drop"}, "over goes with a ledger"),
        ({"far": "drop"}, "far goes with snap_limit"),
        ({"format": "xml"}, "unknown format"),
        ({"to": "xml"}, "unknown format"),
        ({"keep": ["report"]}, "rename"),
        ({"keep": ["x", "x"]}, "more than once"),
    ],
)
def test_options_that_do_not_fit_are_refused(city, options, message):
    with pytest.raises(InputError, match=message):
        perturbed(city, b"id,user\na,Ana\n", **options)


def test_the_column_of_ids_names_no_persons(city, tmp_path):
    with pytest.raises(InputError, match="cannot name the persons"):
        perturbed(city, b"id\na\n", person="ID", ledger=Ledger(tmp_path / "spent.db", limit=1.0))


def test_a_slow_writer_gets_its_reports_at_once(city):
    """Each row is answered before the next is sent."""
    into, source = os.pipe()
    out, target = os.pipe()
    with os.fdopen(into, "rb") as rows, os.fdopen(target, "wb", buffering=0) as reports:

        def work():
            perturb_stream(city, rows, reports)

        thread = threading.Thread(target=work)
        thread.start()
        with os.fdopen(source, "wb", buffering=0) as sender, os.fdopen(out, "rb") as answers:
            sender.write(b"id\na\n")
            assert answers.readline() == b"report,lat,lon\r\n"
            assert answers.readline().startswith(b"a,")
            sender.write(b"b\nc")  # the second is not whole yet
            assert answers.readline().startswith(b"b,")
            sender.write(b"\n")
            assert answers.readline().startswith(b"c,")
            sender.close()
            thread.join()


def test_a_closed_pipe_is_an_error_of_its_own(city):
    out, target = os.pipe()
    os.close(out)
    with os.fdopen(target, "wb", buffering=0) as reports, pytest.raises(ReaderGoneError):
        perturb_stream(city, io.BytesIO(b"id\na\n"), reports)


def test_memory_does_not_grow_with_the_stream(city):
    """Batches are dropped as they are written."""

    class Endless(io.RawIOBase):
        def __init__(self, n_rows):
            self.left, self.is_first = n_rows, True

        def readable(self):
            return True

        def readinto(self, buffer):
            piece = b"id\n" if self.is_first else b"a\n" * min(self.left, len(buffer) // 2, 4000)
            self.left -= 0 if self.is_first else len(piece) // 2
            self.is_first = False
            buffer[: len(piece)] = piece
            return len(piece)

    peaks = []
    with Path(os.devnull).open("wb") as target:
        perturb_stream(city, Endless(10), target)
        for n_rows in (12_000, 48_000):
            tracemalloc.start()
            assert perturb_stream(city, Endless(n_rows), target).reports == n_rows
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def command(*words):
    return [sys.executable, "-m", "metricdp", "perturb", "city.mdp", "-", *words]


def test_the_command_reads_and_writes_standard_streams(city, tmp_path):
    city.save(tmp_path / "city.mdp")
    words = (
        "--snap-limit",
        "0.5",
        "--fast-snap",
        "--keep",
        "person",
        "--person",
        "person",
        "--limit",
        "400",
        "--window",
        "1d",
    )
    data = stream_of("csv", PLACES, PERSONS)
    first, second, third = (
        subprocess.run(command(*words, *more), input=data, cwd=tmp_path, capture_output=True, check=False)
        for more in ((), (), ("--over", "drop"))
    )
    assert first.returncode == 0, first.stderr
    assert rows_of("csv", first.stdout) == list(zip(REPORTS, PERSONS, strict=True))
    assert b"nobody spends more than 400 in any 1d" in first.stderr
    assert (second.returncode, second.stdout) == (1, b"")
    assert b"0 reports were written" in second.stderr
    assert third.returncode == 0
    assert Counter(person for _, person in rows_of("csv", third.stdout)) == {"Ben": 1, "Cleo": 1}
    for done in (first, second, third):
        assert b"57.7001" not in done.stderr
        assert b"Traceback" not in done.stderr
    with Ledger(tmp_path / "city.mdp.ledger", must_exist=True) as ledger:
        assert {name: ledger.spent(name) for name in ledger.holders()} == {"Ana": 400.0, "Ben": 400.0, "Cleo": 400.0}
    other = subprocess.run(
        command(*words[:-1], "2d"), input=data, cwd=tmp_path, capture_output=True, text=False, check=False
    )
    assert other.returncode == 2
    assert b"window" in other.stderr


def test_the_command_ends_quietly_when_nobody_reads(city, tmp_path):
    city.save(tmp_path / "city.mdp")
    with subprocess.Popen(
        command(), cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdin.write(b"id\n" + b"a\n" * 5000)
        process.stdin.flush()
        assert process.stdout.readline() == b"report,lat,lon\r\n"
        process.stdout.close()
        with suppress(BrokenPipeError):
            for _ in range(200):
                process.stdin.write(b"a\n" * 5000)
                process.stdin.flush()
                time.sleep(0.01)
        error = process.stderr.read()
        assert process.wait() == 141
        with suppress(BrokenPipeError):
            process.stdin.close()
    assert b"Traceback" not in error
    assert error.count(b"\n") == 1
    assert b"closed the pipe after" in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-", "--snap-limit", "1", "--snap-distances", "d.csv"), "do not go with -"),
        (("-", "--memory", "m.db"), "--memory FILE goes with --person COLUMN and --ledger-key FILE"),
        (("-", "--limit", "1"), "--person COLUMN go together"),
        (("-", "--person", "user", "--limit", "1", "--window", "soon"), "a window must be"),
        (("-", "--person", "user", "--limit", "1", "--new-ledger", "1"), "leave one out"),
        (("-", "--person", "user", "--ledger", "gone.db"), "does not exist"),
        (("a", "--over", "drop"), "--over goes with -"),
        (("-", "--fast-snap"), "go with --snap-limit"),
    ],
)
def test_wrong_options_of_the_command(run, city, words, message):
    city.save("city.mdp")
    code, out, error = run("perturb", "city.mdp", *words)
    assert (code, out) == (2, "")
    assert message in error


def test_the_memory_of_the_command_holds_no_name_and_no_record(city, tmp_path):
    records = mdp.Records([[57.70, 11.97], [57.71, 11.97]], ids=["secret-home", "secret-work"])
    made = mdp.exponential(mdp.Problem(records, epsilon=1.0, eta=1.5, outputs=mdp.data.grid(1, 2).coordinates))
    made.save(tmp_path / "city.mdp")
    words = ("--memory", "memory.db", "--ledger-key", "key", "--person", "user", "--limit", "5", "--to", "jsonl")
    data = b"id,user\nsecret-home,Ana-Maria\n"
    answers = {
        subprocess.run(command(*words), input=data, cwd=tmp_path, capture_output=True, check=True).stdout
        for _ in range(3)
    }
    assert len(answers) == 1
    (tmp_path / "city.mdp").unlink()
    for path in tmp_path.iterdir():
        content = path.read_bytes()
        assert b"secret-" not in content
        assert b"Ana-Maria" not in content
