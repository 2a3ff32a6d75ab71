"""The judge of gradient stability: each class followed by itself, then means and intervals by hand."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from smoothsweep.core.analysis.gradients import RANGES, follow_gradients
from smoothsweep.core.attacks.shared.execution import Execution
from smoothsweep.core.devices import ExecutionConfig
from smoothsweep.core.judges.gradients import LOSSES, Gradients
from smoothsweep.core.priors.registry import load_prior
from smoothsweep.tasks.context import MachineLeaving, TaskContext, ask_machine_leaving
from smoothsweep.tasks.judging import collect_gradients, follow_classes
from smoothsweep.tasks.training import load_classifier

SETTINGS = {
    "per_class": 2,
    "seed": 5,
    "truncation_psi": 1.0,
    "truncation_cutoff": None,
    "crop": 28,
    "steps": 3,
    "lr": 0.05,
}


@pytest.fixture(scope="module")
def made(paper, tmp_path_factory):
    """(configuration, inputs, folder of the artifact, metrics) of two of the three people."""
    config = {"settings": SETTINGS, "image_size": 32, "protocol": "paper", "classes": [2, 0], "rows_per_batch": None}
    inputs = {"target": paper.folder("target"), "prior": paper.folder("attack.prior")}
    out, work = (tmp_path_factory.mktemp(name) for name in ("gradients", "work"))
    return config, inputs, out, collect_gradients(config, inputs, out, TaskContext(work=work))


@pytest.fixture(scope="module")
def followed(paper):
    """Class -> loss -> quantity -> [steps], each class followed by itself."""
    prior = load_prior(paper.folder("attack.prior"))
    target = load_classifier(paper.folder("target"), paper.config("target"), "cpu")
    settings = Gradients(**SETTINGS)
    ways = {"protocol": "paper", "image_size": 32, "execution": Execution(ExecutionConfig(), "cpu")}
    return {
        person: {loss: follow_gradients(prior, target, person, settings, loss, **ways) for loss in LOSSES}
        for person in (0, 2)
    }


def curve(followed, person, loss, quantity):
    return np.nanmean(followed[person][loss][quantity].double().numpy(), 1)


@pytest.mark.filterwarnings("ignore:Mean of empty slice")  # no cosine in the first step
def test_every_class_has_its_own_curves_in_the_order_of_the_sweep(made, followed):
    table = pd.read_parquet(made[2] / "per_class.parquet")
    assert table["class"].tolist() == [2, 0]
    assert set(table) == {"class", *(f"gradients_{name}_{loss}" for name in RANGES for loss in LOSSES)}
    for loss in LOSSES:
        for name in RANGES:
            expected = [np.nanmean(curve(followed, person, loss, name)) for person in (2, 0)]
            assert table[f"gradients_{name}_{loss}"].tolist() == pytest.approx(expected, abs=1e-5)
            assert made[3][f"gradients_{name}_{loss}"] == pytest.approx(np.mean(expected), abs=1e-5)


@pytest.mark.filterwarnings("ignore:Mean of empty slice")
def test_the_bands_are_means_over_classes_with_students_t(made, followed):
    rows = pd.read_parquet(made[2] / "gradients.parquet").set_index(["loss", "quantity", "step"]).sort_index()
    assert len(rows) == len(LOSSES) * len(RANGES) * 3
    for loss in LOSSES:
        for name in RANGES:
            values = np.stack([curve(followed, person, loss, name) for person in (0, 2)])
            for step in range(3):
                row = rows.loc[(loss, name, step)]
                if name == "cosine" and step == 0:
                    assert row["classes"] == 0 and np.isnan(row["mean"])
                    continue
                assert row["mean"] == pytest.approx(values[:, step].mean(), abs=1e-5) and row["classes"] == 2
                half = stats.t.ppf(0.975, 1) * values[:, step].std(ddof=1) / np.sqrt(2)
                low, high = RANGES[name] or (-np.inf, np.inf)
                ends = max(low, values[:, step].mean() - half), min(high, values[:, step].mean() + half)
                assert (row["low"], row["high"]) == pytest.approx(ends, abs=1e-3)


def test_classes_that_are_done_stay_and_a_machine_that_leaves_is_left(made, tmp_path):
    config, inputs, out, metrics = made
    context = TaskContext(work=tmp_path / "work")
    context.work.mkdir()
    follow_classes(config, inputs, [0], context)
    before = {path: path.stat().st_mtime_ns for path in context.work.rglob("*") if path.is_file()}
    with ask_machine_leaving(lambda: True), pytest.raises(MachineLeaving):
        follow_classes(config, inputs, [0, 2], context)
    assert before and before == {path: path.stat().st_mtime_ns for path in before}
    (tmp_path / "out").mkdir()
    assert collect_gradients(config, inputs, tmp_path / "out", context) == metrics
    for name in ("per_class.parquet", "gradients.parquet"):
        pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out" / name), pd.read_parquet(out / name))
