# One-word targets. Everything runs in .venv, which the targets make when it is missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: train test fuzz faults lint format types bench results docs dist clean

train: $(VENV)/.installed-run  ## install, then train the built-in task with the defaults (ARGS="--seed 1" for others)
	$(BIN)/top-erl train $(ARGS)

test: $(VENV)/.installed-dev  ## install what tests need, then run them
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile --cov --cov-report=term
	$(BIN)/python tests/coverage_floor.py

fuzz: $(VENV)/.installed-dev  ## 3000 random command lines with hostile values (ARGS="--lines 500 --seed 1" for others)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.cli.fuzz $(ARGS)

lint: $(VENV)/.installed-dev  ## style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(VENV)/.installed-dev  ## mend formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(VENV)/.installed-dev  ## strict types on the package
	$(BIN)/mypy

bench: $(VENV)/.installed-dev  ## speed, against a plain reference and the machine's own limit (ARGS="--json FILE")
	$(BIN)/python -m benchmarks $(ARGS)

faults: $(VENV)/.installed-dev  ## what may go wrong, tried on purpose, in 15 minutes (ARGS="--table" writes it into the docs)
	OMP_NUM_THREADS=1 $(BIN)/python -m faults $(ARGS)

results: $(VENV)/.installed-dev  ## tables and figures of README, docs and results, from the raw files
	$(BIN)/python -m results.make

docs: $(VENV)/.installed-dev  ## the site, into docs/_site; a warning or a dead link is an error
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --doctree-dir docs/_site/.doctrees --conf-dir docs . docs/_site
	@echo "The site is there: docs/_site/index.html"

dist: $(VENV)/.installed-dev  ## build wheel and source distribution into dist/, install them into a bare environment, try them
	.ci/dist

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .coverage* build dist docs/_site docs/hyperparameters *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-run: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[log,report]'
	touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[dev]'
	touch $@ $(VENV)/.installed-run
