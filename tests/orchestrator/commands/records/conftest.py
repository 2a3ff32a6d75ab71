"""A recorded sweep, for the tests of `smoothsweep ui` and of its server."""

import shutil

import pytest
from mlflow_look import record
from tiny import write_tiny

from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests import made_artifacts as made_up


@pytest.fixture(scope="session")
def swept(tmp_path_factory, empty_database):
    """A store with one recorded sweep of two recipes under two seeds, its artifacts made up."""
    folder = tmp_path_factory.mktemp("ui")
    with pytest.MonkeyPatch.context() as small:
        for name, value in {"EPOCHS": 5, "CLASSES": 4, "SIDE": 16}.items():
            small.setattr(made_up, name, value)
        store = Store(root=folder / "store")
        store.root.mkdir()
        shutil.copy(empty_database, store.root / "mlflow.db")
        loaded = load_sweep(write_tiny(folder, seeds=[1, 2]))
        trials = trials_of(loaded)
        made_up.write_artifacts(trials, store)
        record(loaded, store, trials)
    return store
