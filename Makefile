# Each target makes the virtual environment it needs, once, and again when pyproject.toml changes.
PYTHON ?= python3
WORKERS ?= 2
VENV := .venv
PEERS := .venv-peers
BIN := $(VENV)/bin
# Test workers share the cores: a pool of BLAS threads in each would only stand in each other's way.
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
# The oracle by one kind of kernels on every processor: by those for AVX-512, gelu(inf) is NaN.
ORACLE := ONEDNN_MAX_CPU_ISA=AVX2

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv demo test test-peers test-slow lint bench clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s%s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/ready ## the virtual environment for work on Rushlight: .venv

demo: $(VENV)/ready ## a LeNet learns handwritten digits
	$(BIN)/python examples/digits.py

test: $(VENV)/ready ## the tests and the examples in the documentation strings
	$(ONE_THREAD) $(BIN)/python -m pytest -n $(WORKERS)

test-peers: $(PEERS)/ready ## the comparisons with PyTorch
	$(ONE_THREAD) $(ORACLE) $(PEERS)/bin/python -m pytest -n $(WORKERS) -m "peers and not slow"

test-slow: $(PEERS)/ready ## the tests that take longer
	$(ONE_THREAD) $(ORACLE) $(PEERS)/bin/python -m pytest -n $(WORKERS) -m slow

lint: $(VENV)/ready ## formatting, rules, types, import direction, stubs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python tools/imports.py
	$(BIN)/python tools/stubs.py --check

bench: $(PEERS)/bench ## the benchmarks, beside the peers that are installed
	$(PEERS)/bin/python -m benchmarks.run
	$(PEERS)/bin/python -m benchmarks.shapes

clean: ## remove the virtual environments, caches and builds
	rm -rf $(VENV) $(PEERS) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/ready: EXTRAS := dev
$(PEERS)/ready: EXTRAS := dev,peers

# One after the other: both installations write the same metadata beside the source.
$(PEERS)/ready: | $(VENV)/ready

$(VENV)/ready $(PEERS)/ready: pyproject.toml
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --editable '.[$(EXTRAS)]'
	touch $@

# These are only raced against: the tests need not wait for them, and the race goes on without any.
$(PEERS)/bench: $(PEERS)/ready
	for peer in jax tensorflow onnx openvino; do \
	    $(PEERS)/bin/python -m pip install --quiet --editable ".[bench-$$peer]" \
	        || echo "no benchmark beside $$peer: it cannot be installed here"; \
	done
	touch $@
