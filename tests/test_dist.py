"""What is installed: the wheel holds the package and what pyproject.toml says, and its demo runs by itself."""

from __future__ import annotations

import os
import runpy
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TOOL = ROOT / "tools" / "dist.py"
PROJECT = runpy.run_path(str(TOOL))["project"]()


@pytest.fixture(scope="module")
def tool():
    return runpy.run_path(str(TOOL))


def metadata(**changed):
    fields = {
        "Metadata-Version": "2.4",
        "Name": PROJECT["name"],
        "Version": PROJECT["version"],
        "Summary": PROJECT["description"],
        "License-Expression": PROJECT["license"],
        "Requires-Python": PROJECT["requires-python"],
        "Description-Content-Type": "text/markdown",
        **changed,
    }
    needs = "".join(f"Requires-Dist: {one}\n" for one in PROJECT["dependencies"])
    head = "".join(f"{name}: {value}\n" for name, value in fields.items())
    return f"{head}{needs}\n{(ROOT / 'README.md').read_text(encoding='utf-8')}"


def wheel(path, names, text):
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("metricdp-1.dist-info/METADATA", text)
        for name in names:
            made.writestr(name, "")
    return path


def test_faults_of_a_wheel_are_found(tool, tmp_path):
    files, faults_of = tool["package_files"](), tool["faults_of"]
    assert {"metricdp/py.typed", "metricdp/report/page/page.html", "metricdp/data/files/words.safetensors"} <= files
    path = tmp_path / "metricdp-1.whl"
    assert faults_of(wheel(path, files, metadata()), PROJECT) == []
    assert faults_of(wheel(path, files - {"metricdp/py.typed"}, metadata()), PROJECT) == [
        "metricdp-1.whl: metricdp/py.typed is missing"
    ]
    assert faults_of(wheel(path, {*files, "tests/shapes.py"}, metadata()), PROJECT) == [
        "metricdp-1.whl: tests/shapes.py does not belong in it"
    ]
    assert faults_of(wheel(path, files, metadata(Version="9.9")), PROJECT) == [
        "metricdp-1.whl: the version is not that of the project"
    ]
    (fault,) = faults_of(wheel(path, files, metadata(Version="new")), PROJECT)
    assert "'new' is invalid for 'version'" in fault


def test_the_version_is_one():
    import metricdp

    assert metricdp.__version__ == PROJECT["version"]


@pytest.mark.slow
def test_the_demo_runs_from_the_wheel_in_a_fresh_environment(tmp_path):
    """Nothing of the repository is at hand: not its folder, not its environment."""
    own = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}

    def environment(name, *wanted):
        venv.create(tmp_path / name, with_pip=True)
        python = tmp_path / name / "bin" / "python"
        options = ["--quiet", "--disable-pip-version-check", "--constraint", str(ROOT / "constraints.txt")]
        subprocess.run([str(python), "-m", "pip", "install", *options, *wanted], check=True, env=own)
        return python

    builder = environment("builder", *PROJECT["optional-dependencies"]["dist"])
    subprocess.run([str(builder), str(TOOL), "--out", str(tmp_path / "dist")], check=True, env=own)
    (made,) = (tmp_path / "dist").glob("*.whl")
    python = environment("fresh", str(made))
    program = [str(python.with_name("metricdp")), "demo"]
    done = subprocess.run(program, cwd=tmp_path, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "optimal by " in done.stdout
    assert "Private: every one of" in done.stdout
    assert (tmp_path / "metricdp-demo.html").exists()
