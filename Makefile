# The words that a contributor needs. A fresh machine needs Python 3.11 or newer, and make.
PYTHON ?= python3
BIN := .venv/bin
SOURCES := src tests bench scripts

.PHONY: demo test check docs bench tck clean

demo: .venv/base ## set up, and show the main job
	$(BIN)/python scripts/demo.py

test: .venv/full ## set up, and run every test
	$(BIN)/pytest -n 2

check: .venv/full ## lint, formatting and types
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy src
	$(BIN)/mypy src/ksadk/toolsets/*.py

docs: .venv/base ## write the generated files again
	$(BIN)/python scripts/stubs.py
	$(BIN)/python scripts/reference.py

bench: .venv/bench ## print the ratios that docs/benchmarks.md quotes; fails when one misses its limit
	$(BIN)/python -m bench

tck: .venv/base ## run a checkout of the public A2A conformance kit: make tck KIT=DIR
	$(BIN)/python scripts/tck.py $(KIT)

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/base: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

.venv/full: .venv/base
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,frameworks,signing,sql,e2b,skills-model]'
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --upgrade \
	    --target .venv/a2a-sdk-1.1.0 a2a-sdk==1.1.0 # cards are held against this release too
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --upgrade \
	    --target .venv/e2b-2.24.0 e2b==2.24.0 dockerfile-parse==2.0.1 # the first release that is supported
	touch $@

.venv/bench: .venv/full
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,frameworks,bench]'
	touch $@
