# Two commands on a fresh machine with Python 3.11, git and make:
#   make repro   the whole experiment on the sample data
#   make test    the tests

PYTHON ?= python3
VENV := .venv
INSTALLED := $(VENV)/.installed

# Stages call `python`; without the environment's bin on PATH they end in status 127.
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)
export MLFLOW_DISABLE_TELEMETRY := true
export DO_NOT_TRACK := true
export TF_CPP_MIN_LOG_LEVEL := 3

.DEFAULT_GOAL := help
.PHONY: help install repro test check ui

help:  ## show this text
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED)  ## make .venv and install everything into it

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --disable-pip-version-check --constraint constraints.txt \
		--editable '.[dev,onnx,slurm]'
	touch $@

repro: $(INSTALLED)  ## rebuild the experiment and print the comparison table
	@python -m accelperf.stages.settings
	dvc repro
	@echo && cat reports/comparison.md

test: $(INSTALLED)  ## run the tests
	pytest -n 2

check: $(INSTALLED)  ## formatting, lint, types and the import contracts
	ruff format --check .
	ruff check .
	mypy
	lint-imports

ui: $(INSTALLED)  ## MLflow UI on the project's store, http://localhost:5000
	mlflow ui --backend-store-uri "$${MLFLOW_TRACKING_URI:-sqlite:///$(CURDIR)/mlflow.db}"
