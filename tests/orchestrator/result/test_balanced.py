"""Balanced accuracy: the closed form, equal to the accuracy for equally many images, nothing for stores without it."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score
from tiny import write_tiny

from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.rows import TARGET, mean_over_classes, trial_row
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests import made_artifacts as made_up


@pytest.fixture
def by_class(tmp_path):
    """Writes accuracies by class as a target's artifact holds them; returns the file."""

    def write(shares, folder=tmp_path):
        path = folder / "per_class.parquet"
        pd.DataFrame({"class": range(len(shares)), "test_acc": shares}).to_parquet(path)
        return path

    return write


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=2, max_size=6))
def test_it_is_the_mean_recall_of_the_library(tmp_path_factory, counts):
    truth = np.repeat(np.arange(len(counts)), [images for images, _ in counts])
    wrong = len(counts) - 1
    said = np.concatenate(
        [np.where(np.arange(n) < hits, label, (label + wrong) % len(counts)) for label, (n, hits) in enumerate(counts)]
    )
    frame = pd.DataFrame({"class": truth, "test_acc": (truth == said).astype(float)})
    path = tmp_path_factory.mktemp("one") / "per_class.parquet"
    frame.groupby("class", as_index=False).mean().to_parquet(path)
    assert mean_over_classes(path) == pytest.approx(balanced_accuracy_score(truth, said))


@pytest.mark.parametrize("kept", [True, False])
def test_the_row_of_a_trial_has_it_where_artifacts_do(tmp_path, by_class, monkeypatch, kept):
    store, trials = Store(root=tmp_path / "store"), trials_of(load_sweep(write_tiny(tmp_path)))
    monkeypatch.setitem(
        made_up.FILES, "target", lambda folder, stage, metrics: kept and by_class([1.0, 0.5, 0.0, 0.5], folder)
    )
    made_up.write_artifacts(trials[:1], store)
    row = trial_row(trials[0], store)
    accuracies = (row[TARGET], row["evaluator_real_acc_balanced"])
    assert row["status"] == "done" and accuracies == ((0.5, 0.5) if kept else (None, None))
    assert ("holds no accuracies by class" in row["reasons"]) is not kept
    assert trial_row(trials[1], store)[TARGET] is None
