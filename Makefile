# Everything a person or a CI does with this project. Needs Python 3.11 or newer, git and make; sets up the rest in .venv.

VENV    ?= .venv
# The first Python here that is new enough; `make PYTHON=/path/to/python` chooses another.
PYTHON  ?= $(shell for python in python3 python3.12 python3.13 python3.14 python3.11 python; do \
             "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$$python"; break; }; done)
TORCH   ?= torch==2.13.0
# One more than two cores: tests wait for disks, and for each other.
WORKERS ?= 3
# With what the programs of the corpus need: torchvision, gymnasium and the like.
CORPUS_PYTHON ?= $(VENV)/bin/python
# Work is stolen: the long tests stand next to each other, and one worker would be left with them.
PYTEST  ?= $(VENV)/bin/python -m pytest -n $(WORKERS) --dist worksteal
PIP      = $(VENV)/bin/python -m pip --disable-pip-version-check install --quiet

# What is compiled is kept: the tests start thousands of programs.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test check unit other-pythons bench long corpus wheel setup clean

help:  ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' Makefile | expand -t 24

demo: $(VENV)/.ready  ## record a run, ask it in hindsight, prove the answer; kill one and go on
	@$(VENV)/bin/python examples/demo.py

test: check other-pythons  ## everything that has to hold for every change; begins with `check`
	$(PYTEST)

check: $(VENV)/.ready  ## ruff, mypy --strict, import contracts
	@$(VENV)/bin/python -m compileall -q src
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check --quiet
	$(VENV)/bin/mypy --strict
	$(VENV)/bin/lint-imports --no-logo

unit: $(VENV)/.ready  ## the quick part of the tests, for while you write
	$(PYTEST) tests/unit

other-pythons: $(VENV)/.ready  ## the torch-free tests on 3.12, 3.13 and 3.14, where they are found
	@$(VENV)/bin/python scripts/other_pythons.py --workers $(WORKERS)

bench: $(VENV)/.ready  ## every benchmark, one JSON object a line
	@$(VENV)/bin/python -m bench

long: $(VENV)/.ready  ## the long reliability runs (hours); prints totals
	REARVIEW_TEST_LONG=1 REARVIEW_TEST_KILLS=1000 REARVIEW_TEST_STATES=1000 REARVIEW_TEST_EXAMPLES=100000 \
	REARVIEW_TEST_FUZZ=1000000 REARVIEW_TEST_FLIPS=100000 REARVIEW_TEST_WRITERS=24x50000 REARVIEW_TEST_RESUME_KILLS=30 REARVIEW_TEST_PROGRAMS=2000 REARVIEW_TEST_INSTRUMENT=5000 \
	$(PYTEST) --ignore=tests/docs

corpus:  ## public programs with checkpoints added: killed and resumed, and asked in hindsight; says what it needs
	@test -n "$(CORPUS)" -a -n "$(MIRROR)" -a -n "$(WORK)" || { echo "say where the descriptions of the programs, their repositories and a scratch folder are: make corpus CORPUS=... MIRROR=... WORK=... [CORPUS_PYTHON=...] [PROGRAMS=\"word_lm dcgan\"]"; exit 1; }
	@for script in corpus corpus_questions; do \
	  $(CORPUS_PYTHON) scripts/$$script.py --tools "$(CORPUS)" --mirror "$(MIRROR)" --work "$(WORK)" --python "$(CORPUS_PYTHON)" $(PROGRAMS) || failed=1; \
	done; exit $${failed:-0}

wheel: $(VENV)/.ready  ## build dist/*.whl and look at what is in it
	rm -rf dist
	$(VENV)/bin/python -m build --wheel --no-isolation --outdir dist .
	$(VENV)/bin/python scripts/check_wheel.py dist

setup: $(VENV)/.ready  ## only set up .venv

clean:  ## remove everything made here (.venv too; never a .rearview)
	rm -rf $(VENV) .venv-3.* build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests bench scripts examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "rearview needs Python 3.11 or newer, and none was found: install one, or say make PYTHON=/path/to/python"; exit 1; }
	@echo "setting up $(VENV) with $$($(PYTHON) --version) (once; some minutes on a slow network)"
	@"$(PYTHON)" -m venv $(VENV) || { echo "$(PYTHON) cannot make virtual environments: install its venv module (Debian, Ubuntu: python3-venv)"; exit 1; }
	@touch $@

# torch first and alone: a later resolution that also saw it could choose another build, gigabytes larger.
$(VENV)/.torch: $(VENV)/.made
	$(PIP) "$(TORCH)"
	@touch $@

$(VENV)/.ready: $(VENV)/.torch pyproject.toml
	$(PIP) --editable ".[all,dev]"
	@touch $@
