# Everything that a fresh clone needs: Python 3.11 or newer, and make. All tools come as wheels,
# at the exact versions and hashes of requirements.lock.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MODELS := src/ridgeline/models
PYTEST_WORKERS ?= 2

# Pyright comes whole in its wheel; this stops it from asking the network about newer versions.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := run
.PHONY: run test test-peers golden setup lock model clean

# The main job: quantise, compile, execute, time and report the shipped model.
run: setup
	$(BIN)/ridgeline run $(MODELS)/digits_cnn.onnx --machine tiny-16 \
		--calibrate $(MODELS)/digits_calibration.npz \
		--input $(MODELS)/digits_test.npz --labels

test: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/pytest -n $(PYTEST_WORKERS)

# Comparisons with other people's data, which RIDGELINE_REFERENCE names and the project does not ship.
test-peers: setup $(VENV)/peers
	$(BIN)/pytest -m peer tests/

# Rewrite the expected texts under tests/golden; read the difference before committing it.
golden: setup
	$(BIN)/pytest -n $(PYTEST_WORKERS) --update-golden

setup: $(VENV)/installed

# Two stamps, so that editing pyproject.toml reinstalls Ridgeline but not its dependencies.
$(VENV)/installed: $(VENV)/dependencies pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--no-deps --no-build-isolation --editable .
	$(BIN)/python -m ridgeline.compiler.warm
	touch $@

# PyTorch, at the versions of requirements-peers.txt; it leaves alone what the lock installed.
$(VENV)/peers: $(VENV)/dependencies requirements-peers.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--requirement requirements-peers.txt
	touch $@

$(VENV)/dependencies: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
		"Ridgeline needs Python 3.11 or newer; $(PYTHON) is " + sys.version.split()[0] \
		+ ". Name another with: make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--require-hashes --requirement requirements.lock
	touch $@

# Choose new versions for requirements.lock. uv lives in an environment of its own because it
# resolves for every Python and platform at once, and nothing else needs it.
lock: build/lock/bin/uv
	build/lock/bin/uv pip compile pyproject.toml --extra rtl --extra fpga --extra png \
		--extra dev --universal \
		--python-version 3.11 --generate-hashes --no-header --upgrade \
		--output-file requirements.lock

build/lock/bin/uv:
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv

# Train the shipped model again and write its data beside it.
model: setup
	$(BIN)/python models/train_digits.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests models -name __pycache__ -type d -prune -exec rm -rf {} +
