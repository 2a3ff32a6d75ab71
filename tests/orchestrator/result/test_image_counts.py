"""How many images a rate is of: from the rows that a stage left, and what the interval makes of it."""

import math

import pandas as pd
import pytest

from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.judges.table import JUDGES
from smoothsweep.core.metrics.intervals import rate_interval
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.result.estimates import OWN, collect, estimate, images_column, rows_by_trial
from smoothsweep.orchestrator.result.rows import image_counts, trial_row
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.load import load_sweep
from tests.tiny import write_tiny

ANSWERS = {
    "robustness": pd.DataFrame(
        {"class": [0, 1, 2, 2, 1], "answer": [0, 1, 0, 2, 1], "fgsm_untargeted": [1, 2, 2, 0, 0]}
    ),
    "backdoor": pd.DataFrame({"class": [0, 1, 2, 2, 1], "answer": [0, 1, 0, 2, 1], "answer_triggered": [1] * 5}),
    "knowledge": pd.DataFrame({"class": [0, 2], "train": [5, 4], "test": [2, 1]}),
    "prior_reach": pd.DataFrame({"class": [0, 1, 2], "matched": [True, True, True]}),
    "prior_reach_general": pd.DataFrame({"class": [0, 1], "matched": [True, False]}),
}
EXPECTED = {
    "robustness": {"fgsm_untargeted": 5, "pgd_targeted": 5, "robust_acc": 5, "fgsm_untargeted_correct": 4},
    "backdoor": {"backdoor_success": 3, "backdoor_false": 3},
    "knowledge": {"xi_train": 9, "xi_test": 3},
    "prior_reach": {"embedder_reach": 3, "verified_far1_reach": 3},
    "prior_reach_general": {"general_reach": 2, "general_verified_far1_reach": 2},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_judge_counts_the_rows_that_its_rates_are_of(name):
    found = JUDGES[name].counts(ANSWERS[name], {"poison": {"poison": {"kind": "blended", "target": 1}}})
    assert EXPECTED[name].items() <= found.items()
    own = {one.key for one in JUDGES[name].columns if one.counted == "own images"}
    assert set(found) == own, "each rate of its own images, and no other"


def finished(folder, answers=None):
    """A trial with a target of 40 training images and a judge that left these rows."""
    (trial,) = trials_of(load_sweep(write_tiny(folder, grid={}, baseline={}, judges={"robustness": {}})))
    store = Store(root=folder / "store")
    store.open_for_writing()
    target = next(stage for stage in trial.stages if stage.name == "target")
    for stage in (target.inputs["data"], *trial.stages):
        if store.has(stage) or (answers is None and stage.name == "judge_robustness"):
            continue
        draft = store.draft(stage)
        if stage.name == "judge_robustness":
            answers.to_parquet(draft / "answers.parquet")
        store.commit(stage, draft, {"metrics": {"num_train": 40} if stage.name == "data" else {}})
    return trial, store


def test_a_trials_row_has_how_many_images_its_rates_are_of(tmp_path):
    trial, store = finished(tmp_path, ANSWERS["robustness"])
    row = trial_row(trial, store)
    assert (
        row["train_acc_images"] == 40 and row["robust_acc_images"] == 5 and row["fgsm_untargeted_correct_images"] == 4
    )
    counted = image_counts(trial, store)
    assert {key for key in row if key in map(images_column, OWN) and key not in BY_KEY} == set(counted)


@pytest.mark.parametrize("classes", ["all", [0, 2]])
@pytest.mark.parametrize("rows", [ANSWERS["knowledge"], None])
def test_a_surrogate_is_asked_about_the_attacked_classes_alone(tmp_path, classes, rows):
    """An artifact from before it held rows: what all classes have is known from the data, what some have is not."""
    path = write_tiny(
        tmp_path, grid={}, baseline={}, classes=classes, judges={"knowledge": dict(JUDGES["knowledge"].example)}
    )
    (trial,) = trials_of(load_sweep(path))
    store = Store(root=tmp_path / "store")
    store.open_for_writing()
    judge = next(stage for stage in trial.stages if stage.name == "knowledge")
    for stage in (judge.inputs["data"], judge):
        draft = store.draft(stage)
        if stage is judge and rows is not None:
            rows.to_parquet(draft / "images.parquet")
        store.commit(stage, draft, {"metrics": {"num_train": 40, "num_test": 20} if stage.name == "data" else {}})
    of_old = {"xi_train_images": 40, "xi_test_images": 20} if classes == "all" else {}
    assert image_counts(trial, store) == (of_old if rows is None else {"xi_train_images": 9, "xi_test_images": 3})


def one_cell(key, values, counts):
    rows = [
        {"trial": f"t{seed}", "seed": seed, "status": "done", key: value, images_column(key): count}
        for seed, (value, count) in enumerate(zip(values, counts, strict=True))
    ]
    return collect(pd.DataFrame(rows), {})[key]


@pytest.mark.parametrize("key", ["backdoor_success", "fgsm_untargeted_correct", "train_acc", "xi_test"])
def test_all_hits_of_a_known_number_of_images_have_an_interval(key):
    found = estimate(BY_KEY[key], one_cell(key, [1.0, 1.0, 1.0], [60, 50, 55]))
    expected = rate_interval([1.0, 1.0, 1.0], images=50)
    assert (found.low, found.high) == (expected.low, expected.high) and 0.85 < found.low < found.high == 1.0
    unknown = estimate(BY_KEY[key], one_cell(key, [1.0, 1.0, 1.0], [60, None, 55]))
    assert math.isnan(unknown.low) and math.isnan(unknown.high)


@pytest.mark.parametrize("key", ["verified_far1_others", "general_verified_far1_others", "verified_far1_real"])
def test_real_photographs_are_the_same_under_every_seed(key):
    """Every test image is held against the other people, whichever classes are attacked."""
    trials = pd.DataFrame([{"trial": f"t{s}", "seed": s, "status": "done", key: 0.0} for s in range(3)])
    found = estimate(BY_KEY[key], collect(trials, {}, 20)[key])
    assert (found.low, found.high) == (0.0, rate_interval([0.0] * 3, images=20).high) and 0.05 < found.high < 0.3


def test_a_rate_over_classes_counts_each_class_of_each_seed_once():
    """Reconstructions are others under every seed: three seeds of 20 classes are 60 outcomes."""
    judge = next(one.key for one in BY_KEY.values() if one.key == "attack_acc1")
    rows = pd.DataFrame(
        [{"trial": f"t{s}", "class": f"c{c}", judge: 1.0, images_column(judge): 4} for s in range(3) for c in range(20)]
    )
    trials = pd.DataFrame([{"trial": f"t{s}", "seed": s, "status": "done", "attack_acc5_last": 1.0} for s in range(3)])
    samples = collect(trials, rows_by_trial(rows))["attack_acc5_last"]
    assert [sample.images for sample in samples.values()] == [20, 20, 20]
    found = estimate(BY_KEY["attack_acc5_last"], samples)
    assert found.low == rate_interval([1.0] * 3, images=60).low and found.high == 1.0
