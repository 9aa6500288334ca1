"""Every example in a docstring is run."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import metricdp

SOURCE = Path(metricdp.__file__).parent
MODULES = sorted(
    ".".join(("metricdp", *p.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
    for p in SOURCE.rglob("*.py")
    if ">>>" in p.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted > 0
    assert outcome.failed == 0
