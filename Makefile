# Everything a developer or a curious visitor runs. `make` alone lists the targets.
#
# One virtual environment, .venv, is made on first use. Three stamps inside it say what is installed there:
# .demo (the package, its plots and its server), .dev (everything the checks need) and .all (heavy optional libraries too). The
# package is installed in place, so a change to Python code needs nothing; a change to native code or to the build rules rebuilds it.

PYTHON  ?= python3
WORKERS ?= 2
# Where PyTorch keeps its wheels for CPUs.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu

VENV   := .venv
BIN    := $(VENV)/bin
NATIVE := $(wildcard src/native/*.cpp src/native/*.h src/native/*.hpp)
# A new room is found only by installing again: the list of folders is made then.
ROOMS := $(wildcard src/anytime/*/__init__.py src/anytime/*/*/__init__.py)
BUILT_FROM := pyproject.toml CMakeLists.txt $(NATIVE) $(ROOMS)
NATIVE_TESTS := $(wildcard tests/native/*.cpp tests/native/*.h tests/native/*.hpp)

# Tests that stand together run in one process, which fits the models that they share once.
SIDE_BY_SIDE := -n $(WORKERS) --dist worksteal

# Other programs on the machine can only make an answer later: a test of the clock has failed if it fails three times in a row.
# pytest's summary counts the reruns.
AGAIN := --reruns 2

# $(1): a marker; only files that have it are collected. A cluster of Ray is as many processes as the machine has processors,
# which wait for each other: its tests run by themselves, one after the other.
files_marked = $$(grep -rl --include='*.py' 'mark\.$(1)' tests research)

# A development environment can run the demonstration too.
READY := $(if $(wildcard $(VENV)/.dev),$(VENV)/.dev,$(VENV)/.demo)

# Whatever environment the caller has active must not leak into ours; nor a wish to keep no byte code, without which every
# process that a test starts compiles the package anew.
unexport PYTHONHOME PYTHONPATH VIRTUAL_ENV PYTHONDONTWRITEBYTECODE
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo build test test-all quick slow-list native-test lint bench compare coverage reproduce figures docs wheel compat clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## train on bundled data, show the curve, write a report to demo/
	$(BIN)/anytime demo

build: $(VENV)/.dev ## install the package in place, with everything the checks need

test: $(VENV)/.dev native-test ## all tests: native (plain and sanitized), Python, docstrings, documentation; networks only where torch is installed
	HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not ray and not realtime"
	HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -m ray $(call files_marked,ray)
	HYPOTHESIS_PROFILE=ci $(BIN)/python -m pytest -m realtime $(AGAIN) $(call files_marked,realtime)

test-all: $(VENV)/.all test ## the same with torch (a wheel for CPUs where there is no GPU) and Ray, which are installed first

quick: $(VENV)/.dev ## the Python tests without the slow ones, which tests/slow.txt lists
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow and not ray and not realtime"

slow-list: $(VENV)/.dev ## measure all Python tests on a quiet machine, and write tests/slow.txt
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not ray and not realtime" --write-slow-list

native-test: $(VENV)/.dev ## the native unit tests, plain and under address and undefined-behaviour sanitizers
	$(call build_native_tests,plain,OFF)
	$(call build_native_tests,sanitized,ON)
	@echo "native tests, plain and sanitized side by side"
	@$(run_native_tests)-plain & plain=$$!; $(run_native_tests)-sanitized && wait $$plain

lint: $(VENV)/.dev ## ruff, mypy --strict, the import contract, docstrings of public names, clang-format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/docstrings.py
	$(BIN)/clang-format --dry-run -Werror $(NATIVE) $(NATIVE_TESTS)

bench: $(VENV)/.dev ## measurements that need neither data nor torch, written to benchmarks/results/; docs/results has all
	@set -e; for script in $$(grep -l __main__ benchmarks/*.py | grep -v compare.py | xargs grep -LE 'required=True|ANYTIME_DATA|torch|network|_forest_sets'); do \
	  echo "$(BIN)/python $$script"; $(BIN)/python $$script; done

compare: $(VENV)/.dev ## measurements of the hot paths at two commits: make compare BEFORE=main~10 [AFTER=main]
	@$(BIN)/python benchmarks/compare.py $(BEFORE) $(AFTER)

coverage: $(VENV)/.dev ## share of the lines that the tests without the slow ones run, by file
	@$(BIN)/python -m pip install -q pytest-cov
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m "not slow and not ray and not realtime" --cov=anytime --cov-report=term:skip-covered

reproduce: $(VENV)/.dev ## the measurements of a page of results again: make reproduce WORK=hu_linear (without WORK: the list)
	@$(BIN)/python benchmarks/reproduce.py $(WORK)

figures: $(VENV)/.dev ## verdicts and figures of the pages of results, from benchmarks/results/
	$(BIN)/python benchmarks/pages.py

docs: $(VENV)/.dev ## the documentation, in docs/_build/index.html; its links are checked
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build
	@$(BIN)/python .ci/links.py docs/_build
	@echo "docs/_build/index.html is ready"

wheel: $(VENV)/.tools ## the sdist and, from it, the wheel, in dist/; then tried in an empty environment, without a compiler
	@rm -rf dist
	@$(BIN)/python -m pip install -q build
	$(BIN)/python -m build
	$(call try_wheel,wheel,dist/*.whl)

compat: wheel ## the wheel with the oldest, then the newest versions of what pyproject.toml asks for
	@$(BIN)/python .ci/oldest.py > build/oldest.txt
	$(call try_wheel,oldest,-c build/oldest.txt "$$(ls dist/*.whl)[serve]")
	$(call try_wheel,newest,--upgrade "$$(ls dist/*.whl)[serve]")

clean: ## remove what was built and cached; .venv stays
	rm -rf build dist demo docs/_build docs/api/generated
	rm -rf .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	find src research tests benchmarks docs -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment -----------------------------------------------------------------------------------------------

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "error: $(PYTHON) not found; install Python 3.11 or newer, or say make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "error: $$($(PYTHON) --version) is too old; Python 3.11 or newer is needed, say make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "error: $(PYTHON) cannot make virtual environments; on Debian or Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || { echo "error: the headers of $(PYTHON) are missing; on Debian or Ubuntu: apt-get install python3-dev" >&2; exit 1; }
	@command -v $${CXX:-c++} >/dev/null || { echo "error: no C++ compiler; on Debian or Ubuntu: apt-get install g++" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What builds the package lives in the environment itself, not in a throw-away one, so that a second build
# finds the first one's objects. The list is that of pyproject.toml, and the tools it takes for granted.
$(VENV)/.tools: pyproject.toml | $(BIN)/python
	@echo "installing build tools"
	@$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], "cmake>=3.25", "ninja", "hatchling", "editables", sep="\n")' > $@.txt
	@$(BIN)/python -m pip install -q -r $@.txt
	@touch $@

$(VENV)/.demo: $(BUILT_FROM) | $(VENV)/.tools
	@echo "building and installing anytime with its plots and its server (a minute or two the first time)"
	@$(BIN)/python -m pip install -q --no-build-isolation -e ".[plot,serve,lightgbm]"
	@touch $@

$(VENV)/.dev: $(BUILT_FROM) | $(VENV)/.tools
	@echo "building and installing anytime for development (a few minutes the first time)"
	@$(BIN)/python -m pip install -q --no-build-isolation -e ".[dev]"
	@$(BIN)/python -m pip install -q --no-build-isolation --no-deps -e research
	@touch $@

# On Linux the torch of PyPI brings gigabytes of CUDA libraries, of which a machine without a GPU needs none. There a wheel
# for CPUs is tried first: from the folders of PIP_FIND_LINKS, then from PyTorch's own index. torch is asked for without what it
# depends on, because those places have nothing else; the last line installs that, and a torch that is there is kept.
$(VENV)/.all: $(VENV)/.dev
	@echo "installing torch"
	@command -v nvidia-smi >/dev/null || $(BIN)/python -c 'import torch' 2>/dev/null \
	  || $(BIN)/python -m pip install -q --no-deps --no-index "torch>=2.2" 2>/dev/null \
	  || $(BIN)/python -m pip install -q --no-deps --retries 1 --timeout 15 --index-url $(TORCH_INDEX) "torch>=2.2" 2>/dev/null \
	  || echo "no torch for CPUs in PIP_FIND_LINKS or $(TORCH_INDEX): taking that of PyPI, which may be gigabytes"
	@$(BIN)/python -m pip install -q --no-build-isolation -e ".[dev,torch]"
	@echo "installing Ray"
	@$(BIN)/python -m pip install -q --no-build-isolation -e ".[ray]" \
	  || { $(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 14))' \
	  && echo "no Ray for this Python: tests of clusters are skipped"; }
	@touch $@

# $(1): name of the build folder, $(2): sanitizers ON or OFF
define build_native_tests
@$(BIN)/cmake -S . -B build/native-$(1) -G Ninja -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(BIN)/ninja" \
  -DANYTIME_TESTS=ON -DANYTIME_SANITIZE=$(2) --log-level=WARNING
@$(BIN)/cmake --build build/native-$(1) -- --quiet
endef
run_native_tests = $(BIN)/ctest --output-on-failure --no-tests=error --test-dir build/native

# $(1): name of a new environment, $(2): what pip installs there. Its programs are all that PATH has: there is no compiler.
define try_wheel
@echo "trying the wheel: $(1)"
@rm -rf build/try-$(1)
@$(BIN)/python -m venv build/try-$(1)
@build/try-$(1)/bin/python -m pip install -q pytest hypothesis $(2)
@env PATH="$(CURDIR)/build/try-$(1)/bin" build/try-$(1)/bin/python .ci/smoke.py
endef
