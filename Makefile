# Everything sets itself up: `make test` on a fresh machine is all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo parts test lint types unit format clean

demo: $(READY)
	@$(BIN)/seqloom demo

test: lint types unit

parts: $(READY)
	@$(BIN)/seqloom parts

# Installed again only when what is to be installed has changed.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(READY)
	$(BIN)/mypy

unit: $(READY)
	$(BIN)/pytest

format: $(READY)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

clean:
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
