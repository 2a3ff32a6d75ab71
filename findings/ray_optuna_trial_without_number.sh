#!/usr/bin/env bash
# A trial whose metric is NaN: Optuna counts it as failed, Ray Tune's OptunaSearch leaves it running for good.
set -euo pipefail
packages="ray[tune]==2.60.0 optuna==5.0.0 numpy==2.4.6"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
if [ -z "${FINDINGS_VENV:-}" ]; then
  python3 -m venv venv
  venv/bin/pip install --quiet --disable-pip-version-check $packages
fi
"${FINDINGS_VENV:-$work/venv}/bin/python" -W ignore - $packages <<'EOF'
import sys
from importlib.metadata import version

for name, wanted in (pin.split("==") for pin in sys.argv[1:]):
    if version(name.split("[")[0]).split("+")[0] != wanted:
        sys.exit(f"this finding is about {name} {wanted}; installed is {version(name)}")
print("versions:", *sys.argv[1:])

import logging

import optuna
from ray.tune.search.optuna import OptunaSearch

logging.disable(logging.WARNING)
optuna.logging.set_verbosity(optuna.logging.ERROR)


def space(trial):
    trial.suggest_float("rate", 1e-4, 1e-1, log=True)


alone = optuna.create_study()
for value in (0.5, float("nan")):
    trial = alone.ask()
    space(trial)
    alone.tell(trial, value)
storage = optuna.storages.InMemoryStorage()
search = OptunaSearch(space, metric="loss", mode="min", seed=0, storage=storage, study_name="tuned")
for name, value in (("a", 0.5), ("b", float("nan"))):
    search.suggest(name)
    search.on_trial_complete(name, {"loss": value, "training_iteration": 1})
tuned = optuna.load_study(study_name="tuned", storage=storage)
seen = {name: [trial.state.name for trial in study.trials] for name, study in (("Optuna", alone), ("Ray", tuned))}
for name, states in seen.items():
    print(f"{name}: loss 0.5 is {states[0]}, loss NaN is {states[1]}")
sys.exit("the behaviour has changed" if seen != {"Optuna": ["COMPLETE", "FAIL"], "Ray": ["COMPLETE", "RUNNING"]} else 0)
EOF
