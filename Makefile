# The two commands: `make demo` and `make test`. Everything installs into .venv.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: install help lock lint types test demo demo-torch bench torch-natives clean

install: $(STAMP)

help:
	@echo "make demo | demo-torch   check an example pull request of OneFlow | of PyTorch"
	@echo "make test                lint, types, all tests; make lint | types: these alone"
	@echo "make install             OpDiff into $(VENV); make lock: dependencies anew"
	@echo "make bench               benchmarks; make clean: remove $(VENV) and reports"

$(STAMP): requirements.lock pyproject.toml
	@echo "== installing into $(VENV)"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

lock:
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --extra dev \
	  --output-file requirements.lock pyproject.toml requirements.in
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --constraint requirements.lock --output-file requirements-image.lock pyproject.toml requirements.in

lint: $(STAMP)
	@# Two test modules of one name cannot be collected together.
	@! find tests -name 'test_*.py' -printf '%f\n' | sort | uniq -d | grep .
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.github-actions action.yml
	$(BIN)/actionlint -shellcheck $(BIN)/shellcheck -pyflakes ""
	$(BIN)/zizmor --offline --quiet .github/workflows action.yml
	$(BIN)/shellcheck .ci/run .github/action/*.sh
	$(BIN)/hadolint --failure-threshold style Dockerfile

types: $(STAMP)
	$(BIN)/pyright

test: lint types
	$(BIN)/pytest

# The main job on a fresh machine: a pull request's diff against a real OneFlow, its baseline and PyTorch.
demo: $(STAMP)
	$(call demo,oneflow,oneflow==0.9.0,examples/oneflow-layer-norm.patch)

demo-torch: $(STAMP)
	$(call demo,torch,torch==2.13.0,examples/torch-normalize.patch)

# `opdiff check` exits with 2 when it finds what the example plants: for a demo that is success.
define demo
	@echo "== preparing the released $(1), whose sources the example patch changes"
	@$(BIN)/opdiff envs prepare $(2)
	$(BIN)/opdiff check --patch $(3) --source "$$($(BIN)/opdiff envs path $(2))" --out opdiff-report/$(1); \
	  code=$$?; test $$code -eq 2 && echo "the planted fault was found (exit code 2)"
endef

bench: $(STAMP)
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/planted.py

# The table of PyTorch's native functions, for the trees of its out-of-tree backends (docs/changes.md).
NATIVES := bot/changes/frameworks/torch/natives.yml
torch-natives: $(STAMP)
	@test -n "$(RELEASE)" -a -n "$(SOURCE)" || { echo "make torch-natives RELEASE=2.13.0 SOURCE=FOLDER SOURCE_VERSION=1.13.1"; exit 1; }
	$(BIN)/opdiff envs prepare torch==$(RELEASE)
	$(BIN)/python -m bot.changes.frameworks.torch.natives_file "$$($(BIN)/opdiff envs path torch==$(RELEASE))" \
	  $(RELEASE) "$(SOURCE)" $(SOURCE_VERSION) > $(NATIVES).new
	mv $(NATIVES).new $(NATIVES)

clean:
	rm -rf $(VENV) opdiff-report
