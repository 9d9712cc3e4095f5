# One command from a clone to a running server: `make serve`. Everything is installed into $(VENV), nothing outside it.

PYTHON ?= python3
VENV ?= .venv
HOST ?= 127.0.0.1
PORT ?= 1025
# A model folder, and the name that clients ask for. Empty: the embedded SmolLM2-135M-Instruct under its own name.
MODEL ?=
MODEL_NAME ?=
# Processes that run tests at the same time, a module of tests each. Many of them start servers with models.
WORKERS ?= 2
# More options of `mindspec serve` and `mindspec mock`, such as ARGS="--max-n 8".
ARGS ?=
# Pinned and installed first, so that pip takes a CPU build where one is offered; pyproject.toml admits nothing newer.
TORCH ?= torch==2.13.0

# Some images forbid Python to keep compiled modules. The environment is ours, and without them a start takes 6 s more.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
# --no-compile: most modules are never imported; compiling only those that are saved 19 of 50 seconds.
PIP := $(BIN)/python -m pip --disable-pip-version-check install -qq --no-compile
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
# Tests that run JavaScript need Node and npm; where there is no npm they are skipped.
NPM := $(shell command -v npm 2>/dev/null)
INSTALLED_WEB := $(if $(NPM),tests/web/node_modules/.installed)
# torch_npu, for the tests of the NPU's path: in folders of their own, since torch imports what it finds beside itself.
TORCH_NPU := 2.13.0 2.10.0.post4
INSTALLED_NPU := $(if $(filter Linux,$(shell uname -s)),$(VENV)/npu/.installed)
NAME_ARGUMENTS = $(if $(MODEL_NAME),--model-name "$(MODEL_NAME)")
SERVE_ARGUMENTS = --host "$(HOST)" --port "$(PORT)" $(if $(MODEL),--model "$(MODEL)") $(NAME_ARGUMENTS) $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help serve mock weights test lint generate check-generated clean

help:  ## Show this list.
	@sed -n 's/^\([a-z-]*\):.*##/make \1\t/p' $(MAKEFILE_LIST) | expand -t 22

serve: $(INSTALLED) $(if $(MODEL),,weights)  ## Install what is missing, prepare the weights, serve on HOST:PORT.
	@exec $(BIN)/mindspec serve $(SERVE_ARGUMENTS)

mock: $(INSTALLED)  ## Serve the same contract with made-up text: no weights, ready at once.
	@exec $(BIN)/mindspec mock --host "$(HOST)" --port "$(PORT)" $(NAME_ARGUMENTS) $(ARGS)

weights: $(INSTALLED)  ## Put the default model into the cache, once.
	@$(BIN)/python -m tools.weights >/dev/null

test: $(INSTALLED_DEV) $(INSTALLED_WEB) $(INSTALLED_NPU) weights  ## Run the tests: pytest over everything, with the default model.
	@MINDSPEC_TEST_WEIGHTS=required $(if $(NPM),MINDSPEC_TEST_WEB=required) \
	  $(if $(INSTALLED_NPU),MINDSPEC_TEST_NPU=required) \
	  $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile $(PYTEST_ARGUMENTS)

lint: $(INSTALLED_DEV)  ## Check style and types.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

generate: $(INSTALLED_DEV)  ## Write generated/ anew from spec/.
	$(BIN)/mindspec generate

check-generated: $(INSTALLED_DEV)  ## Fail when generated/ is not what spec/ gives.
	$(BIN)/mindspec generate --check

clean:  ## Remove the environment and every build product; the cached weights stay.
	rm -rf $(VENV) tests/web/node_modules build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .schemathesis
	find engine generated handlers tools tests -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps are written last: an interrupted installation starts again, a finished one costs nothing.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' || \
	  { echo "mindspec needs Python 3.11, 3.12 or 3.13: make $(MAKECMDGOALS) PYTHON=python3.11"; exit 1; }
	@test -x $(BIN)/pip || { echo "install: making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "install: $(TORCH) (the largest part, a minute or more)"
	@$(PIP) "$(TORCH)"
	@echo "install: mindspec and the rest"
	@$(PIP) --editable .
	@touch $@

$(INSTALLED_DEV): $(INSTALLED)
	@echo "install: the tools that tests and checks need"
	@$(PIP) --editable ".[dev]"
	@touch $@

$(VENV)/npu/.installed: $(INSTALLED)
	@echo "install: torch_npu $(TORCH_NPU), for tests"
	@for version in $(TORCH_NPU); do \
	  $(PIP) --no-deps --target $(VENV)/npu/$$version "torch_npu==$$version" || exit 1; done
	@touch $@

tests/web/node_modules/.installed: tests/web/package-lock.json
	@echo "install: the JavaScript that tests need"
	@cd tests/web && $(NPM) ci --loglevel=error
	@touch $@
