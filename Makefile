# Every target sets up .venv first: on a fresh machine, `make test` is all you need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo parts test lint spell types unit format clean

demo: $(READY)
	@$(BIN)/seqloom demo

test: lint spell types unit

parts: $(READY)
	@$(BIN)/seqloom parts

# Installs again only after pyproject.toml or constraints.txt has changed.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

spell: $(READY)
	$(BIN)/codespell

types: $(READY)
	$(BIN)/mypy

# Two processes with one thread each. worksteal mostly keeps the tests of a file, and their fixtures, in one process.
unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
