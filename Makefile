# make demo: the quickstart sweep, start to report.   make test: the test suite.   Both build .venv first.
# make drills: the sweep killed, cut off and filled up in every way we can; writes the table of docs/reliability.md.
# make rehearsal: the paper's own experiments at reduced counts, from the official file formats to Tables 1 to 13.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready
STORE  ?= store
ROOM   ?= core/membership
export OMP_NUM_THREADS ?= 1
export RAY_USAGE_STATS_ENABLED = 0
export MLFLOW_DISABLE_TELEMETRY = true

.PHONY: env demo browser test explore test-slow test-gpu gpu gpu-smoke latest drills rehearsal nightly mutants lint bench docs clean

env: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "smoothsweep needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: env
	$(BIN)/smoothsweep run sweeps/quickstart.yaml --store $(STORE)

# The report's tests open it in a real browser; without one (no root, no apt) they are skipped, and say so.
browser:
	-command -v chromium >/dev/null || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || \
		{ apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-liberation >/dev/null; }

test: env browser
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

# The property tests with examples that no run before has drawn.
explore: env
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -n 2 $$(grep -rl --include='test_*.py' hypothesis tests)

test-slow: env
	$(BIN)/python -m pytest -m slow

test-gpu: env
	$(BIN)/python -m pytest -m gpu

# Everything that only a GPU can show, in nine minutes at most; writes the table of docs/gpu.md.
gpu: env
	$(BIN)/python -m benchmarks.gpu --table docs/gpu.md

gpu-smoke: env
	$(BIN)/python -m benchmarks.gpu --smoke

# The newest releases that our ranges admit, in an environment of their own, and the tests on them.
latest:
	$(PYTHON) -m venv $(VENV)-latest
	$(VENV)-latest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade -e '.[dev]'
	$(VENV)-latest/bin/python -m pip list --outdated
	$(VENV)-latest/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

drills: env
	DRILLS_TABLE=docs/reliability.md $(BIN)/python -m pytest -m slow -p no:cacheprovider tests/drills

rehearsal: env
	$(BIN)/python -m pytest -m slow -s $(wildcard tests/orchestrator/commands/test_rehearsal*.py)

# Every slow test: the audit, the rehearsal, the drills and the rest. Hours.
nightly: env
	DRILLS_TABLE=docs/reliability.md $(BIN)/python -m pytest -m slow -p no:cacheprovider

# Small faults put into the code of a room, one at a time: do the tests of that room notice?  make mutants ROOM=core/metrics
mutants: env
	rm -rf build/mutants && mkdir -p build/mutants
	cp -rL smoothsweep tests tools benchmarks examples docs README.md build/mutants
	sed 's#core/membership#$(ROOM)#' pyproject.toml > build/mutants/pyproject.toml
	cd build/mutants && $(abspath $(BIN))/mutmut run && $(abspath $(BIN))/mutmut export-cicd-stats && cat mutants/mutmut-cicd-stats.json

lint: env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check smoothsweep smoothsweep/core smoothsweep/tasks smoothsweep/sweeps smoothsweep/orchestrator

bench: env
	$(BIN)/python -m benchmarks.orchestration
	$(BIN)/python -m benchmarks.attack_full
	$(BIN)/python -m benchmarks.search_quality
	$(BIN)/python -m benchmarks.calibration

# README, docs/ and the notebook as a site in build/site; a link that leads nowhere ends it.
docs: env
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	$(BIN)/python -m tools.results
	$(BIN)/python -m tools.site build/pages
	$(BIN)/zensical build --strict --clean

clean:
	rm -rf $(VENV) build *.egg-info
