"""The code in the documentation and the examples runs."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import metricdp as mdp
from metricdp.cli import main
from metricdp.mechanism.container import metadata_hash, tensor_hash

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MEASURED = ("benchmarks.md",)  # code there takes minutes, as its page says
BLOCKS = [
    pytest.param(block, id=f"{path.name}-{number}", marks=[pytest.mark.slow] if path.name in MEASURED else [])
    for path in DOCUMENTS
    if path.name != "deploy.md"  # its steps need those before them: test_deploy_can_be_followed_literally
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
]
COMMANDS = [
    pytest.param(block.strip().splitlines(), id=f"{path.name}-{number}")
    for path in DOCUMENTS
    for number, block in enumerate(re.findall(r"```\n(metricdp .*?)```", path.read_text(encoding="utf-8"), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_in_the_documents(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    exec(compile(block, "document", "exec"), space)  # noqa: S102
    assert "mdp" in space


@pytest.mark.parametrize("commands", COMMANDS)
def test_commands_in_the_documents(commands, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in commands:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as stop:
            main()
        assert not stop.value.code, command


# pages to be followed from top to bottom: files that are shown are written, code and commands run in one folder
SESSIONS = (
    "tutorial-city.md",
    "tutorial-service.md",
    "tutorial-own-distance.md",
    "applying.md",
    "auditing.md",
    "places.md",
    "plane.md",
)
STEP = re.compile(r"(?:^`([\w.-]+)`:\n\n)?^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", SESSIONS)
def test_pages_can_be_followed_literally(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ran = 0
    for file, kind, content in STEP.findall((ROOT / "docs" / name).read_text(encoding="utf-8")):
        if file:
            Path(file).write_text(content, encoding="utf-8")
        elif kind == "python":
            exec(compile(content, name, "exec"), {})  # noqa: S102
        elif kind == "console":
            for command in (line[2:] for line in content.splitlines() if line.startswith("$ metricdp ")):
                ran += 1
                if " < " in command:
                    _run_stream(command)
                    continue
                monkeypatch.setattr(sys, "argv", shlex.split(command))
                with pytest.raises(SystemExit) as stop:
                    main()
                assert not stop.value.code, capsys.readouterr().err
        elif kind == "text":  # what the page says is printed was printed by the step before it
            printed = capsys.readouterr().out
            assert content in printed
    assert ran > 0


def _run_stream(command):
    """Run a command of the form `metricdp ... < SOURCE > TARGET` in a process of its own: a report for each row."""
    words, source, target = re.fullmatch(r"metricdp (.*) < ([\w.]+) > ([\w.]+)", command).groups()
    with Path(source).open("rb") as rows, Path(target).open("wb") as reports:
        done = subprocess.run(
            [sys.executable, "-m", "metricdp", *shlex.split(words)],
            stdin=rows,
            stdout=reports,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "3 reports written" in done.stderr
    assert len(Path(target).read_text().splitlines()) == 3 + (Path(target).suffix == ".csv")


SET_UP = ['git clone "$REPOSITORY" metricdp', "cd metricdp", "make demo", "source .venv/bin/activate"]


def shell(commands, environment, **options):
    words = ["bash", "-e", "-u", "-o", "pipefail", "-c", commands]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, **options)


def commands_of(kind, content):
    if kind == "python":
        return f"python - <<'END'\n{content}END\n"
    assert kind == "sh" or all(line.startswith("$ ") for line in content.splitlines())
    return content.replace("$ ", "") if kind == "console" else content


def test_deploy_can_be_followed_literally(tmp_path):
    """Every command and every program of the page, in its order and in one folder; this tree stands for the clone."""
    for name in ("examples", "clients"):
        (tmp_path / name).symlink_to(ROOT / name)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    own = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    steps = STEP.findall((ROOT / "docs" / "deploy.md").read_text(encoding="utf-8"))
    assert {kind for _, kind, _ in steps} == {"sh", "console", "python", "text", "js"}
    assert steps[0][2].splitlines() == SET_UP
    answers, printed, service = [], "", None
    try:
        for _, kind, content in [("", "sh", "metricdp demo"), *steps[1:]]:
            if kind == "text":
                assert content in printed
            if kind not in ("sh", "console", "python"):
                continue
            if "uvicorn " in content:
                command = ["bash", "-c", f"exec env {content.replace('8000', port)}"]
                service = subprocess.Popen(command, cwd=tmp_path, env=own, stderr=subprocess.DEVNULL)
                wait_for(port, service)
                continue
            done = shell(commands_of(kind, content).replace("8000", port), own, cwd=tmp_path)
            assert done.returncode == 0, content + done.stderr
            printed = done.stdout
            answers += [json.loads(printed)] if "curl " in content else []
    finally:
        if service is not None:
            service.kill()
            service.wait()
    assert [sorted(answer) for answer in answers] == [["id", "latitude", "longitude"]]
    assert 0 < len(mdp.load(tmp_path / "district.mdp").records.ids) < 300  # a part, and not everything
    ledger = mdp.Ledger(tmp_path / "budget.db", key=tmp_path / "budget.key", must_exist=True)
    epsilon = mdp.load(tmp_path / "metricdp-demo.mdp").epsilon
    for person, reports in (("Ana", 3), ("Ben", 4)):
        assert ledger.spent(person) == pytest.approx(reports * epsilon)
    assert len((tmp_path / "reports.csv").read_text(encoding="utf-8").splitlines()) == 4
    assert (tmp_path / "page.html").stat().st_size > 1_000_000


def wait_for(port, process):
    for _ in range(600):
        assert process.poll() is None, "the service ended"
        try:
            socket.create_connection(("127.0.0.1", int(port))).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    pytest.fail("the service did not start")


@pytest.fixture(scope="module")
def verify_program():
    """The program of docs/file-format.md that reads and verifies a file without this library."""
    page = (ROOT / "docs" / "file-format.md").read_text(encoding="utf-8")
    program = re.findall(r"```py\n(.*?)```", page, re.DOTALL)[0]
    nodes = list(ast.walk(ast.parse(program)))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert imported <= sys.stdlib_module_names
    return program


def _verify(program, file):
    (file.parent / "verify_mdp.py").write_text(program, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-I", "verify_mdp.py", file.name], cwd=file.parent, capture_output=True, text=True, check=False
    )


def test_a_file_is_verified_without_the_library(verify_program, tmp_path, monkeypatch):
    page = (ROOT / "docs" / "file-format.md").read_text(encoding="utf-8")
    file = tmp_path / "city.mdp"
    command, *claimed = re.search(r"\$ (metricdp solve .*?)```", page, re.DOTALL)[1].splitlines()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with pytest.raises(SystemExit) as stop:
        main()
    assert not stop.value.code
    passed = _verify(verify_program, file)
    assert (passed.returncode, passed.stdout.splitlines()) == (0, claimed[1:]), passed.stderr

    # a weight raised by a millionth at the tightest place, a pair left out, a hash that does not fit: all are found
    tensors = load_file(file)
    with safe_open(file, "numpy") as opened:
        metadata = opened.metadata()
    unprivate = {**tensors, "table": tensors["table"].copy()}
    i, j = tensors["pairs"].T
    tightness = np.log(tensors["table"][i] / tensors["table"][j]) / tensors["distances"][:, None]
    pair, k = np.unravel_index(np.argmax(tightness), tightness.shape)
    row = unprivate["table"][i[pair]]
    amount = row[k] // np.uint64(10**3)
    row[k] += amount
    row[np.argmax(np.where(np.arange(len(row)) == k, 0, row))] -= amount
    incomplete = {**tensors, "pairs": tensors["pairs"][1:].copy(), "distances": tensors["distances"][1:].copy()}
    for spoiled, fits, answer in (
        (unprivate, True, "NOT private"),
        (incomplete, True, "NOT complete"),
        (unprivate, False, "not those that were written"),
    ):
        named = dict(metadata)
        if fits:
            named["sha256"] = tensor_hash(spoiled)
            named["metadata_sha256"] = metadata_hash(named)
        save_file(spoiled, file, metadata=named)
        refused = _verify(verify_program, file)
        assert refused.returncode == 1
        assert answer in refused.stderr


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.name)
def test_links_lead_somewhere(path):
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text(encoding="utf-8"))
    missing = [target for target in targets if not (path.parent / target).exists()]
    assert missing == []


ERRORS = {"InputError", "FileFormatError", "CertificationError", "SolverError", "InfeasibleError", "LedgerError"}


def messages_of(path):
    """The messages that a module raises, values replaced by a dot."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        is_fault = name in ("add", "check") and ast.unparse(node.func).startswith("faults.")
        message = node.args[-1] if is_fault else node.args[0]
        if not is_fault and name not in ERRORS:
            continue
        if isinstance(message, ast.Constant):
            yield str(message.value)
        elif isinstance(message, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "." for part in message.values)


def test_every_error_is_in_the_faq():
    section = (ROOT / "docs" / "faq.md").read_text(encoding="utf-8").split("## Messages")[1]
    listed = [
        re.compile(".*".join(map(re.escape, message.split("…"))), re.DOTALL)
        for row in section.splitlines()
        if row.startswith("| `")
        for message in re.findall(r"`([^`]+)`", row.split(" | ")[0])
    ]
    sources = sorted((ROOT / "src" / "metricdp").rglob("*.py"))
    messages = {message for path in sources for message in messages_of(path)}
    assert len(messages) > 250
    missing = [message for message in sorted(messages) if not any(pattern.match(message) for pattern in listed)]
    assert missing == [], "explain these messages in docs/faq.md"


def test_the_readme_shows_what_the_demo_prints(run):
    """Line by line, except for seconds, megabytes, and last digits that another processor may round differently."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"```\n(gothenburg: .*?)```", text, re.DOTALL).group(1)
    code, out, err = run("demo")
    assert code == 0, err

    def lines(of: str) -> list[str]:
        timeless = re.sub(r"in [\d.]+ s \(\d+ MB\)", "in some time", of)
        gaps = re.sub(r"(gap|within) (\d+\.\d)\d* %", r"\1 \2 %", timeless)
        return [re.sub(r"(\d\.\d{3})\d+", r"\1", line).strip() for line in gaps.splitlines()]

    printed = lines(out + err)
    assert len(lines(shown)) > 5
    assert lines(shown.replace("gap 1.9", "gap 2.9")) != lines(shown)  # gaps are compared
    assert [line for line in lines(shown) if line not in printed] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_nothing_is_left_to_be_filled_in(path):
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"\b(?:TODO|TBD|FIXME|XXX|HEADLINE|PLACEHOLDER)\b", text) == []
