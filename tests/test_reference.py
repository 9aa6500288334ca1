"""The pages that list everything: the names of the library and the options of its commands."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

from tools.make_commands import KINDS, kinds_of, page
from typer.main import get_command

import metricdp as mdp
from metricdp.cli.app import COMMANDS, app
from metricdp.problem.plane import MAX_ENTRIES

DOCS = Path(__file__).resolve().parents[1] / "docs"
SOURCE = Path(mdp.__file__).parents[1]
API = (DOCS / "api.md").read_text(encoding="utf-8")
# whose `__all__` is public; files of these two that others import by their path stand on the page themselves
PACKAGES = ("metricdp", *(f"metricdp.{room}" for room in mdp.ROOMS), "metricdp.evaluate.auditor")
WITHOUT_ALL = ("metricdp.errors", "metricdp.report")


def at(path: str):
    """What a dotted path names; names go before files of the same name, such as `metricdp.data.road`."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name, None)


def listed():
    """Every path on the page, those of members included."""
    for path, options in re.findall(r"^::: ([\w.]+)\n((?:    .*\n)*)", API, re.MULTILINE):
        members = re.search(r"members: \[(.*)\]", options)
        if members:
            yield from (f"{path}.{name}" for name in members[1].split(", "))
        else:
            yield path


def named(path: str) -> tuple[str, int]:
    """A name and what it stands for: the same from the package and from the file that defines it."""
    return path.rpartition(".")[2], id(at(path))


def exported() -> set[str]:
    found = set()
    for package in PACKAGES:
        names = getattr(importlib.import_module(package), "__all__", ())
        found |= {f"{package}.{name}" for name in names if name != "__version__"}
    return {path for path in found if not inspect.ismodule(at(path)) or path == "metricdp.solve"}


def test_everything_exported_is_on_the_page():
    assert len(exported()) > 150
    on_page = {named(path) for path in listed()} | {("solve", id(mdp.solve))}
    assert sorted(path for path in exported() if named(path) not in on_page) == []


def test_everything_on_the_page_exists_and_is_exported():
    public = {named(path) for path in exported()}
    for path in listed():
        assert at(path) is not None, path
        assert not isinstance(at(path), ModuleType), f"{path} lists no members"
        file = (SOURCE / path.replace(".", "/")).with_suffix(".py")
        assert not file.exists(), f"the site would show the file instead: write {path}.{path.rpartition('.')[2]}"
        assert named(path) in public or path.startswith(WITHOUT_ALL), path
    assert len(set(map(named, listed()))) == len(list(listed())), "something is listed twice"


def test_what_the_documents_import_is_on_the_page():
    on_page = {named(path) for path in listed()}
    imported = set()
    for document in DOCS.glob("*.md"):
        for block in re.findall(r"```python\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL):
            for node in ast.walk(ast.parse(block)):
                if isinstance(node, ast.ImportFrom) and str(node.module).startswith("metricdp."):
                    imported |= {f"{node.module}.{alias.name}" for alias in node.names}
    assert len(imported) > 10
    assert sorted(path for path in imported if named(path) not in on_page) == []


def test_the_page_of_commands_is_what_the_program_says():
    assert page() == (DOCS / "commands.md").read_text(encoding="utf-8"), "run python -m tools.make_commands"


def test_every_option_says_what_it_is():
    group = get_command(app)
    for name in COMMANDS:
        command = group.get_command(None, name)
        kinds = kinds_of(next(info.callback for info in app.registered_commands if info.name == name))
        for option in command.params:
            if option.name == "help":
                continue
            assert kinds[option.name].split(",")[0] in KINDS.values()
            assert re.match(r"[A-Z].{15,}\.$", option.help), (name, option.name, option.help)


def test_the_constants_of_auto_are_those_of_the_page():
    text = (DOCS / "scaling.md").read_text(encoding="utf-8")
    rows = dict(
        re.findall(r"^\| `([\w.]+)` \| ([\d.e-]+) \|", text.split("### The constants of `auto`")[1], re.MULTILINE)
    )
    for module in ("auto", "interior.cost"):  # all numbers of these two, but those that count memory
        names = vars(importlib.import_module(f"metricdp.solve.solvers.{module}"))
        numbers = {name for name, value in names.items() if name.isupper() and type(value) is float}
        own = {name for name in numbers if re.search(rf"^{name} = ", source_of(module), re.MULTILINE)}
        assert {name.rpartition(".")[2] for name in rows if name.startswith(f"{module}.")} == own
    for name, value in rows.items():
        assert at(f"metricdp.solve.solvers.{name}") == float(value), name


def source_of(module: str) -> str:
    return (SOURCE / "metricdp/solve/solvers" / module.replace(".", "/")).with_suffix(".py").read_text(encoding="utf-8")


def test_a_region_of_78_cells_each_way_is_the_largest_with_every_cell_an_output():
    """What docs/plane.md says under "How large"."""

    def entries(cells: int, outputs: int) -> int:
        return mdp.data.region(0.0, 0.0, cells, cells, spacing=1.0, kind="vectors").n_nodes * outputs

    assert entries(78, 78**2) <= MAX_ENTRIES < entries(79, 79**2)
    assert entries(198, 1_000) <= MAX_ENTRIES < entries(199, 1_000)
    text = (DOCS / "plane.md").read_text(encoding="utf-8").split("### How large")[1].split("##")[0]
    for said in ("at most 40 million", "78 × 78", "198 × 198"):
        assert said in text
