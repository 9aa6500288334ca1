"""The house rules that can be read off the source."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

import metricdp

SOURCE = Path(metricdp.__file__).parent
REPOSITORY = Path(__file__).parents[1]
# the way of the data: imports only go left
ORDER = (
    "errors",
    "data",
    "metric",
    "problem",
    "mechanism",
    "partition",
    "solve",
    "evaluate",
    "statistics",
    "report",
    "budget",  # left of apply: what is applied to a file of persons is charged first
    "apply",
    "extras",
    "cli",
)
FILES = sorted(SOURCE.rglob("*.py"))
# How an object shows itself is asked of the object (notebooks call `_repr_html_`, people `.plot()`), but drawing is the
# business of `report`, which stands right of all objects. These methods, and nothing else, import it when called.
SHOWN_BY_REPORT = {
    ("data/records.py", "Records"),
    ("evaluate/compare.py", "Comparison"),
    ("mechanism/mechanism.py", "Mechanism"),
    ("partition/partition.py", "Partition"),
    ("problem/problem.py", "Problem"),
    ("solve/result.py", "Result"),
}
SHOWING = ("plot", "_repr_html_")


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports_in(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "metricdp":
            found |= {f"metricdp.{alias.name}" for alias in node.names if alias.name != "__version__"}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported_modules(path: Path) -> set[str]:
    return imports_in(tree_of(path))


def flowing_imports(path: Path) -> set[str]:
    """All imports but those of `report` in the methods by which objects show themselves."""
    tree = ast.parse(path.read_text(encoding="utf-8"))  # a tree of its own, since parts are taken out
    for owner in tree.body:
        if isinstance(owner, ast.ClassDef) and (path.relative_to(SOURCE).as_posix(), owner.name) in SHOWN_BY_REPORT:
            shows = [node for node in owner.body if isinstance(node, ast.FunctionDef) and node.name in SHOWING]
            assert [node.name for node in shows] in (["_repr_html_", "plot"], ["_repr_html_"])
            assert all(module.startswith("metricdp.report.") for node in shows for module in imports_in(node))
            owner.body = [node for node in owner.body if node not in shows]
    return imports_in(tree)


def test_imports_only_go_left():
    inside = [path for path in FILES if room_of(path) not in ("__init__", "__main__")]  # those are the front door
    assert {room_of(path) for path in inside} == set(ORDER)
    wrong = [
        f"{path.relative_to(SOURCE)} imports {module}"
        for path in inside
        for module in flowing_imports(path)
        if module.startswith("metricdp.") and ORDER.index(module.split(".")[1]) > ORDER.index(room_of(path))
    ]
    assert not wrong


def test_the_checker_imports_no_solver_and_no_repair():
    """Directly or through others: the checks, their arithmetic, whose epsilon counts, sparse tables, nothing else."""
    seen, rest = set(), {"metricdp.mechanism.certify"}
    while rest:
        module = rest.pop()
        seen.add(module)
        path = (SOURCE.parent / module.replace(".", "/")).with_suffix(".py")
        rest |= {other for other in imported_modules(path) if other.startswith("metricdp")} - seen
    own = {f"metricdp.mechanism.{name}" for name in ("certify", "certify_sparse", "choice", "exact", "sparse")}
    assert seen == own | {"metricdp.data.frozen", "metricdp.errors", "metricdp.metric.budgets"}


@pytest.mark.parametrize(
    ("library", "only"), [("highspy", "solve/lp.py"), ("typer", "cli"), ("distributed", "solve/executor.py")]
)
def test_one_place_owns_each_library(library, only):
    users = {str(p.relative_to(SOURCE)) for p in FILES if library in imported_modules(p)}
    users.discard("data/shipped.py")  # reads the shipped data
    assert users
    assert all(user == only or user.startswith(f"{only}/") for user in users)


def test_no_pickle_and_no_assert():
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        modules = imported_modules(path)
        assert not {m for m in modules if m.split(".")[0] in ("pickle", "dill", "cloudpickle", "marshal", "shelve")}
        assert "allow_pickle=True" not in text
        assert not any(isinstance(node, ast.Assert) for node in ast.walk(tree_of(path))), path


def test_files_stay_short():
    long = {str(p.relative_to(SOURCE)): n for p in FILES if (n := p.read_text(encoding="utf-8").count("\n")) > 400}
    assert not long


def test_no_float_sampling_or_weak_randomness():
    """Reports only come from the operating system; numpy's generator stands in one function, named for what it is."""
    text = (SOURCE / "mechanism" / "sample.py").read_text(encoding="utf-8")
    assert text.count("np.random") == 2
    assert "seeded_bits_for_experiments_only" in text
    for path in (*(SOURCE / "mechanism").glob("*.py"), *(SOURCE / "budget").glob("*.py")):
        if path.name != "sample.py":
            assert "random." not in path.read_text(encoding="utf-8"), path


def test_only_the_command_line_speaks_of_its_options():
    """Whoever calls a function gets no advice about ``--flags``."""
    for path in FILES:
        tree = tree_of(path)
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        said = [node.value for node in texts if id(node) not in docstrings]
        flags = [text for text in said if re.search(r"(?<![-\w])--[a-z]", text)]
        assert room_of(path) == "cli" or not flags, path


def test_one_place_knows_where_the_data_of_rome_is():
    owners = {
        str(path.relative_to(REPOSITORY))
        for folder in ("benchmarks", "examples", "papers", "src", "tests", "tools")
        for path in (REPOSITORY / folder).rglob("*.py")
        if path != Path(__file__)
        and re.search(r"""environ.*METRICDP_ROME|["/]shared["/ ]+data["/]""", path.read_text(encoding="utf-8"))
    }
    assert owners == {"benchmarks/rome.py"}


def test_the_order_of_rooms_is_the_one_that_is_written_down():
    text = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^data -> .*$", text, re.MULTILINE)
    assert ("errors", *shown.split(" -> ")) == ORDER
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(ORDER[1:])


def test_everything_the_tests_need_is_installed():
    """A package of the extra ``dev`` that is missing fails here, and every test that needs it: nothing is skipped."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    own = next(re.findall(r"[\w-]+", need)[1:] for need in extras["dev"] if need.startswith("metricdp["))
    needed = [need for name in (*own, "dev") for need in extras[name] if not need.startswith("metricdp[")]
    assert len(needed) > 10
    missing = []
    for need in needed:
        name = re.match(r"[\w-]+", need)[0]
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            missing.append(name)
    assert not missing, 'pip install "metricdp[dev]"'
