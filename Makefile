# Everything sets itself up: a virtual environment in .venv, installed against constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench

.PHONY: demo test test-slow client-cross mutants lint types format bench bench-full paper docs dist clean help

help:
	@echo "make demo       solve a real city and certify the mechanism"
	@echo "make test       run the tests"
	@echo "make test-slow  run the long tests too"
	@echo "make client-cross  the JavaScript client against this library: verdicts on thousands of files, draws, the service"
	@echo "make mutants    mutation testing of the exact core and the readers of files, in an hour"
	@echo "make lint       ruff; make types: mypy; make format: rewrite the layout"
	@echo "make bench      ours against every peer on small instances, in half an hour; bench-full: the whole registry, days"
	@echo "make paper      the paper's tables and figures at a small size, in minutes, into build/qiu2024"
	@echo "make docs       build the documentation into build/docs"
	@echo "make dist       build wheel and source distribution into dist, and check them"

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "metricdp needs Python 3.11 or newer, found " + sys.version.split()[0] + "; run: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@touch $(STAMP)

demo: $(STAMP)
	$(BIN)/metricdp demo

test: $(STAMP)
	$(BIN)/python -m pytest -n auto -m "not slow"

test-slow: $(STAMP)
	$(BIN)/python -m pytest -n auto

client-cross: $(STAMP)
	$(BIN)/python -m pytest -n 0 -s -v tests/clients

mutants: $(STAMP)
	$(BIN)/python tools/mutants

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(BENCH_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[bench]"
	@touch $(BENCH_STAMP)

bench: $(BENCH_STAMP)
	$(BIN)/python -m benchmarks --quick

bench-full: $(BENCH_STAMP)
	$(BIN)/python -m benchmarks

paper: $(STAMP)
	@mkdir -p build
	$(BIN)/python -m papers.qiu2024 all --quick --out build/qiu2024

docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(BIN)/python tools/check_docs.py build/docs

dist: $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dist]"
	$(BIN)/python tools/dist.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
