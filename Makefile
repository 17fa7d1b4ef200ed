# Everything runs in .venv, which is made when it is missing and updated when pyproject.toml or constraints.txt change.
PYTHON ?= python3
BIN := .venv/bin
TOY := build/toy
DEMO := build/demo

.DEFAULT_GOAL := help
.PHONY: help test lint demo bench page clean

help:  ## print this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What fails beside other tests is run once more, alone: a busy machine breaks promises of time, a fault fails twice.
test: lint  ## check style and types, and run the tests
	$(BIN)/python -m pytest -n 2 --dist worksteal || { [ $$? = 1 ] && $(BIN)/python -m pytest --last-failed -rfE; }

lint: .venv/dev  ## check style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	MYPYPATH=benchmarks:tests $(BIN)/mypy --explicit-package-bases benchmarks
	MYPYPATH=recipes/en-de $(BIN)/mypy --explicit-package-bases recipes/en-de

demo: .venv/plot  ## translate with the bundled model and look inside; then train one on a made-up corpus in under two minutes
	$(BIN)/headway translate "The weather is nice today, so we went for a walk."
	$(BIN)/headway translate --from de --to en "Das Wetter ist heute schön."
	mkdir -p build
	$(BIN)/headway attend --model en-de --to de "The old dog is sleeping under the table." --kind cross --png build/attention.png
	rm -rf $(DEMO)
	$(BIN)/headway toy --out $(TOY)
	$(BIN)/headway train --source $(TOY)/train.en --target $(TOY)/train.qtx \
	    --valid-source $(TOY)/valid.en --valid-target $(TOY)/valid.qtx --out $(DEMO) --preset tiny --for 110s
	$(BIN)/headway translate --model $(DEMO) "The dog sees a red house." "Anna was born on March 14, 1987."
	$(BIN)/headway evaluate --model $(DEMO) --source $(TOY)/test.en --target $(TOY)/test.qtx
	$(BIN)/headway attend --model $(DEMO) "The dog sees a red house." --kind cross --png $(DEMO)/attention.png

bench: .venv/dev  ## measure, always as a ratio against something else measured in the same run
	$(BIN)/python benchmarks/start_up.py

page:  ## build the page of headway serve from web/ (needs Node 20)
	cd web && npm ci --no-audit --no-fund && npm run build

clean:  ## remove what was built, and .venv
	rm -rf .venv web/node_modules build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch comes first and alone, so that the pinned build is the one that everything else finds installed.
.venv/torch: constraints.txt
	test -d .venv || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	touch $@

.venv/plot: .venv/torch pyproject.toml
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .[plot]
	touch $@

.venv/dev: .venv/torch pyproject.toml
	$(BIN)/python -m pip install --quiet -c constraints.txt -e .[dev]
	touch $@ .venv/plot
