"""Build the wheel and the source distribution, and check what is in them.

    python tools/dist.py [--out dist]

The wheel is built from the source distribution, so that this is complete. Both must have valid metadata that agree with
pyproject.toml and hold every file of the package; the wheel holds nothing else.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.metadata import Metadata
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
SOURCE_FILES = ("pyproject.toml", "README.md", "LICENSE")


def project() -> dict[str, Any]:
    """Return what pyproject.toml says of the project, with the version from where it points."""
    said: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    source = ast.parse((ROOT / "src" / "metricdp" / "__init__.py").read_text("utf-8"))
    (version,) = (
        ast.literal_eval(line.value)
        for line in source.body
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__version__"
    )
    return {**said, "version": version}


def package_files() -> set[str]:
    """Return the files of the package, relative to ``src``, without what Python and numba leave beside them."""
    found = (path for path in (ROOT / "src" / "metricdp").rglob("*") if path.is_file())
    return {path.relative_to(ROOT / "src").as_posix() for path in found if path.parent.name != "__pycache__"}


def contents(path: Path) -> tuple[set[str], str]:
    """Return the names of the files in a distribution, without the folder of an archive, and its metadata."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            names = set(wheel.namelist())
            (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
            return names, wheel.read(metadata).decode()
    with tarfile.open(path) as archive:
        files = {str(PurePosixPath(*PurePosixPath(member.name).parts[1:])): member for member in archive}
        stream = archive.extractfile(files["PKG-INFO"])
        return set(files), "" if stream is None else stream.read().decode()


def faults_of(path: Path, said: dict[str, Any]) -> list[str]:
    """Return what is wrong with a distribution; an empty list if nothing is."""
    names, text = contents(path)
    try:
        found = Metadata.from_email(text, validate=True)
    except ExceptionGroup as group:
        return [f"{path.name}: {error}" for error in group.exceptions]
    core = {str(one) for one in found.requires_dist or () if one.marker is None}
    agreeing = {
        "name": (found.name, said["name"]),
        "version": (str(found.version), said["version"]),
        "summary": (found.summary, said["description"]),
        "license": (found.license_expression, said["license"]),
        "Python": (str(found.requires_python), said["requires-python"]),
        "dependencies": (core, {str(Requirement(one)) for one in said["dependencies"]}),
        "type of the description": (found.description_content_type, "text/markdown"),
        "description": ((found.description or "").strip(), (ROOT / said["readme"]).read_text("utf-8").strip()),
    }
    faults = [f"the {what} is not that of the project" for what, (here, there) in agreeing.items() if here != there]
    is_wheel = path.suffix == ".whl"
    needed = package_files() if is_wheel else {f"src/{name}" for name in package_files()} | set(SOURCE_FILES)
    faults += [f"{name} is missing" for name in sorted(needed - names)]
    if is_wheel:
        other = (name for name in names - needed if not name.split("/")[0].endswith(".dist-info"))
        faults += [f"{name} does not belong in it" for name in sorted(other)]
    return [f"{path.name}: {fault}" for fault in faults]


def main() -> None:
    """Build and check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="a folder; distributions in it are removed")
    out = parser.parse_args().out
    for old in (*out.glob("metricdp-*.whl"), *out.glob("metricdp-*.tar.gz")):
        old.unlink()
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(out), str(ROOT)], check=True)
    made = [*out.glob("metricdp-*.whl"), *out.glob("metricdp-*.tar.gz")]
    faults = [fault for path in made for fault in faults_of(path, project())]
    if len(made) != len(("wheel", "source")):
        faults.append(f"a wheel and a source distribution were expected, got {len(made)} files")
    if faults:
        sys.exit("\n".join(faults))
    print("\n".join(f"{path}: {path.stat().st_size / 1e6:.1f} MB, checked" for path in made))


if __name__ == "__main__":
    main()
