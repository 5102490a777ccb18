# What to do with a checkout. Everything is installed into .venv, and again only when pyproject.toml or a lock file changes.
#
#   make serve PYTHON=python3.12 INTERLINEAR_PORT=9000
#   make check PYTEST_ARGS="-k decoding -x"
#   make test PYTEST_ARGS="-n 0 --pdb"       in one process
#
# PYTHON             the interpreter .venv is made with: 3.11 or later. Default: the first found.
# TORCH_INDEX_URL    one more index for pip to find PyTorch in. Default: without an NVIDIA device, PyTorch's CPU-only one,
#                    which saves several GB. Empty: none.
# INTERLINEAR_*      settings of the service.

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PYTEST_ARGS ?=
ARGS ?= --help
BENCHMARK ?= training engine serving
SOAK_MINUTES ?= 60
LOAD ?= 0

BIN := .venv/bin
PIP_INSTALL = $(BIN)/python -m pip install -qq $$($(BIN)/python deploy/pytorch_index.py)

# These versions with these hashes. PyTorch, whose builds differ, and what only it brings come after them.
LOCKED_INSTALL = $(BIN)/python -m pip install -qq --no-deps --require-hashes --requirement
PIP_COMPILE = CUSTOM_COMPILE_COMMAND='make lock' $(BIN)/pip-compile --quiet --generate-hashes --strip-extras \
	--unsafe-package torch --no-annotate --no-emit-index-url --no-emit-trusted-host --no-emit-find-links
FAST := -m "not (slow or browser or bundle or soak or ray)" --hypothesis-profile fast
SLOW_TESTS := tests/app/documents tests/app/formats tests/app/runtime/test_work_unit.py \
	tests/app/storage/test_translation_memory.py tests/app/text tests/app/translation/test_documents.py \
	tests/app/translation/test_quality_checks.py tests/benchmarks/test_slow_memory.py \
	tests/model/test_normalisation.py
IN_PARALLEL := -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder
# A thread a test process, and compiled modules even where the environment says otherwise: without them, every process that
# tests start compiles ours again, and pytest takes twice as long to find the tests.
TEST_ENVIRONMENT := OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=

.DEFAULT_GOAL := help
.PHONY: help serve train check fix test coverage slow-test soak scale-test docs lint bench lock clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: .venv/.serving  ## serve bundles/ on http://127.0.0.1:8000: a page, and an API with its manual at /docs
	$(BIN)/python -m app serve

train: .venv/.training  ## sentence pairs to a bundle: make train ARGS="--pairs my.tsv --source en --target fr --out mine/en-fr"
	$(BIN)/python -m training run $(ARGS)

check: lint  ## before a commit, in a minute: lint, then the fast tests
	$(TEST_ENVIRONMENT) $(BIN)/python -m pytest $(IN_PARALLEL) $(FAST) $(PYTEST_ARGS)

fix: .venv/.everything  ## let ruff format the code and repair what it can
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

test: lint  ## lint, then run all tests; those skipped are listed with their reasons
	$(TEST_ENVIRONMENT) $(BIN)/python -m pytest $(IN_PARALLEL) $(PYTEST_ARGS)

coverage: lint  ## `make test`, which also fails if too few lines of app, model and training run; it takes a third longer
	$(BIN)/coverage erase
	$(TEST_ENVIRONMENT) $(BIN)/coverage run -m pytest $(IN_PARALLEL) $(PYTEST_ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

slow-test: .venv/.everything  ## tests of documents, texts and memory with Python three to five times slower; LOAD=8: beside so many busy processes
	@busy=; for _ in $$(seq $(LOAD)); do $(BIN)/python -c 'while True: pass' & busy="$$busy $$!"; done; \
	trap 'test -z "$$busy" || kill $$busy' EXIT; \
	PYTHONPATH="$(CURDIR)/tests/slow_python" $(TEST_ENVIRONMENT) $(BIN)/python -m pytest $(IN_PARALLEL) $(SLOW_TESTS) $(PYTEST_ARGS)

soak: .venv/.everything  ## bad days at length, some as root: SOAK_MINUTES=60 of mixed traffic, as many of slow files, killed workers, little memory
	$(TEST_ENVIRONMENT) $(BIN)/python -m pytest -m soak $(PYTEST_ARGS)
	$(BIN)/python -m benchmarks.soak
	$(BIN)/python -m benchmarks.overload
	$(BIN)/python -m benchmarks.stopping --runs 20
	$(BIN)/python -m benchmarks.hostile
	$(BIN)/python -m benchmarks.slow_memory --minutes $(SOAK_MINUTES)
	$(BIN)/python -m benchmarks.mixed_soak --minutes $(SOAK_MINUTES)
	$(BIN)/python -m benchmarks.slow_files --minutes $(SOAK_MINUTES)
	$(BIN)/python -m benchmarks.slow_texts --minutes $(SOAK_MINUTES)
	$(BIN)/python -m benchmarks.kept_text --minutes $(SOAK_MINUTES)

scale-test: .venv/.ray  ## the service on Ray Serve: kill, hang and update replicas under load; needs 466 MB more, and root or user namespaces
	$(TEST_ENVIRONMENT) $(BIN)/python -m benchmarks.ray_cluster pytest -m ray -W ignore $(PYTEST_ARGS)

docs: .venv/.everything  ## docs/ as a site with search, in site/ (docs/README.md says how to open it)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

lint: .venv/.everything  ## ruff (lint and format) and mypy
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: .venv/.benchmarks  ## measure on this machine, briefly, on made data: BENCHMARK=engine is benchmarks/engine.py alone
	$(foreach name,$(BENCHMARK),$(BIN)/python -m benchmarks.$(name) $(if $(filter engine serving,$(name)),--short) &&) true

lock: .venv/.made  ## renew requirements.lock, for serving, and requirements-dev.lock, for everything
	$(PIP_INSTALL) 'pip-tools>=7.5'
	$(PIP_COMPILE) --upgrade --extra train --extra dev --output-file requirements-dev.lock pyproject.toml
	cp requirements-dev.lock requirements.lock  # whose versions are kept, and what serving does not need goes
	$(PIP_COMPILE) --extra scale --output-file requirements.lock pyproject.toml

clean:  ## remove .venv and what the tools left
	rm -rf .venv build site tests/node_modules *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache

.venv/.made:
	@$(if $(PYTHON),:,echo "no Python 3.11 or later found; name one: make PYTHON=/path/to/python3" >&2; exit 1)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "$(PYTHON) is not Python 3.11 or later" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
		echo "$(PYTHON) cannot make virtual environments; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "installing into .venv; the first time takes a few minutes"
	$(PYTHON) -m venv .venv
	@touch $@

.venv/.serving: .venv/.made pyproject.toml requirements.lock
	$(LOCKED_INSTALL) requirements.lock
	$(PIP_INSTALL) --editable .
	@touch $@

.venv/.training: .venv/.made pyproject.toml requirements.lock
	$(LOCKED_INSTALL) requirements.lock
	$(PIP_INSTALL) --editable '.[train]'
	@touch $@ .venv/.serving

.venv/.everything: .venv/.made pyproject.toml requirements-dev.lock tests/package-lock.json
	$(LOCKED_INSTALL) requirements-dev.lock
	$(PIP_INSTALL) --editable '.[train,dev]'
	@# DeepL's client for Node. Without npm the test that runs it is skipped.
	! command -v npm > /dev/null || npm ci --silent --no-audit --prefix tests
	@touch $@ .venv/.serving .venv/.training

.venv/.ray: .venv/.everything
	$(PIP_INSTALL) --editable '.[train,dev,bulk,ray]'
	@touch $@

.venv/.benchmarks: .venv/.made pyproject.toml requirements.lock
	$(LOCKED_INSTALL) requirements.lock
	$(PIP_INSTALL) --editable '.[train,bench]'
	@touch $@ .venv/.serving .venv/.training
