"""Verdicts of judges as stages give them."""

import json
import math
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import torch
import torch.nn.functional as F
from tiny import tiny_sweep

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.judges.table import JUDGES, measured, stage_of
from smoothsweep.core.models.fid import PUBLISHED_FIDS
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.graph import unavailable_reasons
from smoothsweep.sweeps.expand import check
from smoothsweep.tasks import judges
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import load_tensors, save_rows, save_tensors
from smoothsweep.tasks.registry import TASKS
from tests.orchestrator.settings_cases import CASES
from tests.pipeline import SETTINGS, stages_of_a_trial

NAMED = [name for name, judge in JUDGES.items() if not judge.requested_by]  # the others have no settings
READS = {"loot", "data", "target", "prior"}


def examples(name, changes=()):
    """`judges` of a sweep file: this one as its example is, and what it must have beside it."""
    beside = {other: dict(JUDGES[other].example) for other in JUDGES[name].requires}
    return {**beside, name: {**JUDGES[name].example, **dict(changes)}}


def asking(name, changes=(), protocol="clean"):
    return check(tiny_sweep(protocol=protocol, judges=examples(name, changes), **SETTINGS), name)


@pytest.mark.parametrize("name", JUDGES)
def test_a_judge_declares_what_others_loop_over(name):
    judge = JUDGES[name]
    assert judge.__doc__ and judge.columns and set(judge.reads) <= READS
    assert TASKS[stage_of(name)].version == judge.work.version >= 1
    for metric in judge.columns:
        assert BY_KEY[metric.key].stage == stage_of(name)
        assert metric.ceiling is None or metric.ceiling in {one.key for one in judge.columns}
    assert set(judge.hints) <= {field.name for field in fields(judge)} | {"checkpoint_every"}


@pytest.fixture(scope="module")
def pipeline_of_judge_family(request):
    return request.getfixturevalue("clean")


@pytest.mark.parametrize("name", NAMED)
def test_it_measures_what_it_declares_the_same_every_time(name, pipeline_of_judge_family, tmp_path):
    settings = examples(name)
    stages = stages_of_a_trial("clean", judges=settings)
    if stage_of(name) not in stages.judges:
        pytest.skip(unavailable_reasons(check(tiny_sweep(judges=settings, **SETTINGS), name))[stage_of(name)])
    stage = stages.judges[stage_of(name)]
    execute_with_inputs(pipeline_of_judge_family.store, stage)
    folder = pipeline_of_judge_family.store.path(stage)
    found = json.loads((folder / "manifest.json").read_text())["metrics"]
    columns = [metric for metric in JUDGES[name].columns if metric.key in found]
    assert columns and (name not in measured() or len(columns) == len(JUDGES[name].columns))
    for metric in columns:
        value = found[metric.key]
        assert metric.null if value is None else math.isfinite(value)
        low, high = metric.range or (-math.inf, math.inf)
        assert value is None or low <= value <= high
    labels, said = pipeline_of_judge_family.tensors("loot", "images")["labels"], folder / "per_image.parquet"
    if said.is_file():  # the rate that has a ceiling is the share of hits, and so is that of each class
        rows, key = pd.read_parquet(said), next(metric.key for metric in JUDGES[name].columns if metric.ceiling)
        assert rows["class"].tolist() == labels.tolist() and found[key] == pytest.approx(rows["hit"].mean())
        classes = pd.read_parquet(folder / "per_class.parquet").set_index("class")[key]
        assert classes.to_dict() == pytest.approx(rows.groupby("class")["hit"].mean().to_dict())
    again = tmp_path / "again"
    again.mkdir()
    once_more = TASKS[stage.name].function()(
        {**stage.config, **stage.hints},
        {role: pipeline_of_judge_family.store.path(source) for role, source in stage.inputs.items()},
        again,
        context_of(tmp_path),
    )
    assert {metric.key: once_more[metric.key] for metric in columns} == {one.key: found[one.key] for one in columns}
    assert {path.name for path in again.iterdir()} == {path.name for path in folder.iterdir()} - {"manifest.json"}


def context_of(folder):
    from smoothsweep.tasks.context import TaskContext

    return TaskContext(work=folder)


SETTINGS_OF = {where[7:]: fields for _, where, fields in CASES.values() if where.startswith("judges.")}
BESIDE = {name: {} for name in ("robustness", "membership", "gradients")} | {
    "features": {"classes": 2, "perplexity": 3.0}
}
"""Judges that need nothing from outside, as small as they may be, all in one sweep with those of the pipeline."""
BESIDE["robustness"] = {"eps": 0.02, "steps": 2, "strong_steps": 2, "generations": 1}
BESIDE["membership"] = {"shadows": 4, "copies": 2, "levels": 2, "images": 5}
BESIDE["gradients"] = {"steps": 2, "per_class": 1, "truncation_psi": 1.0, "truncation_cutoff": None}
UNSEEN = {("robustness", name) for name in ("generations", "population", "strong_steps", "strong_restarts")}
UNSEEN |= {("gradients", "truncation_cutoff")} | {("membership", name) for name in ("copies", "levels", "share")}
UNSEEN |= {("membership", name) for name in ("shadows", "shadow_recipe", "trained_on_data")}
"""Those attacks find the same of a dozen images (tests/core/analysis counts what they ask); eigenfaces have one latent;
a target that has learnt nothing answers alike however it is asked; shadow models are other stages, and data may be
others only of a model that was brought in."""


def judged(**changes):
    """The trial under all of them."""
    judges = {name: dict(JUDGES[name].example) for name in ("evaluator", "embedder", "knowledge")}
    return stages_of_a_trial("clean", judges={**judges, **BESIDE, **changes})


@pytest.mark.parametrize(("name", "field"), [(name, field) for name in BESIDE for field in SETTINGS_OF[name]])
def test_every_setting_changes_its_judge_and_no_other(name, field, pipeline_of_judge_family, travels):
    """In its configuration and, of the same inputs, in what is measured: nothing remembers the value before."""
    before, value = judged(), SETTINGS_OF[name][field]
    after = judged(**{name: {**BESIDE[name], field: value}})
    others = {stage.name: stage.fingerprint for stage in before if stage.name != stage_of(name)}
    assert others == {stage.name: stage.fingerprint for stage in after if stage.name != stage_of(name)}
    one, other = (stages.judges[stage_of(name)] for stages in (before, after))
    assert one.fingerprint != other.fingerprint
    if (name, field) not in UNSEEN:
        for source in one.inputs.values():
            execute_with_inputs(pipeline_of_judge_family.store, source)
        inputs = {role: pipeline_of_judge_family.store.path(source) for role, source in one.inputs.items()}
        travels(one.name, {**one.config, **one.hints}, {**other.config, **other.hints}, inputs)


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_what_is_wrong_is_one_line_that_names_the_judge(name, protocol):
    asking(name, protocol=protocol)
    for changes in (*JUDGES[name].wrong, {"no_such_setting": 1}):
        with pytest.raises(InputError, match=rf"judges\.{name}") as caught:
            asking(name, changes, protocol)
        assert "\n" not in str(caught.value)


NAMES, SIDE = ("fid_lomma", "fid_plg"), 16


class Pooled(torch.nn.Module):
    """[N, 3, 299, 299] -> the means of its four quarters, [N, 12]."""

    def forward(self, images):
        assert images.shape[1:] == (3, 299, 299)
        return F.adaptive_avg_pool2d(images, 2).flatten(1)


@pytest.fixture(autouse=True)
def network(monkeypatch):
    monkeypatch.setattr(judges, "load_network", lambda config, device: Pooled().to(device))


def features(images, protocol):
    """At 299 pixels neither protocol resizes: paper shows 2x - 1 of [-1, 1], clean (bytes - 128) / 128."""
    shown = 2 * (images.float() / 127.5 - 1) - 1 if protocol == "paper" else (images.float() - 128) / 128
    return F.adaptive_avg_pool2d(shown, 2).flatten(1).double()


def frechet(a, b):
    means, covariances = [x.mean(0).numpy() for x in (a, b)], [np.cov(x.numpy().T) for x in (a, b)]
    root = scipy.linalg.sqrtm(covariances[0] @ covariances[1]).real
    return ((means[0] - means[1]) ** 2).sum() + np.trace(covariances[0] + covariances[1] - 2 * root)


def as_floats(count, classes, seed, side=SIDE):
    """Floats in [-1, 1] whose quarters differ, and labels that go round."""
    coarse = torch.rand(count, 3, 2, 2, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return F.interpolate(coarse, size=(side, side)), torch.arange(count) % classes


def judged_as_published(folder, name, images, labels, hits, real, real_labels, file="images_decoded"):
    save_tensors(folder / "loot" / f"{file}.safetensors", {"images": images, "labels": labels})
    save_tensors(folder / "real" / "features.safetensors", {"train_features": real, "train_labels": real_labels})
    (folder / "verdicts").mkdir(parents=True)
    save_rows(folder / "verdicts" / "per_image.parquet", pd.DataFrame({"hit": hits}))
    inputs = {part: folder / part for part in ("loot", "real", "verdicts")}
    config = {"network": name, "side": SIDE}
    return judges.judge_by_published_fid(config, inputs, folder / "out", TaskContext(work=folder))


@pytest.mark.parametrize("name", NAMES)
def test_what_the_evaluator_recognises_is_compared_with_the_right_real_images(tmp_path, name):
    images, labels = as_floats(30, 2, 1)
    real, real_labels = torch.rand(40, 12, generator=torch.Generator().manual_seed(2)), torch.arange(40) % 4
    hits = [row % 3 != 0 for row in range(30)]
    metrics = judged_as_published(tmp_path, name, images, labels, hits, real, real_labels)
    shown = Pooled()(PUBLISHED_FIDS[name].made(images[torch.tensor(hits)]))
    kept = real[real_labels < 2] if name == "fid_lomma" else real  # LOMMA's: of the attacked classes
    assert metrics == {name: pytest.approx(frechet(kept.double(), shown.double()), rel=1e-3), f"{name}_images": 20}
    written = load_tensors(tmp_path / "out" / "features.safetensors")
    assert torch.equal(written["labels"], labels[torch.tensor(hits)])
    torch.testing.assert_close(written["features"], shown)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("recognised", [0, 1])
def test_with_fewer_than_two_hits_there_is_none_and_the_count_says_so(tmp_path, name, recognised):
    images, labels = as_floats(4, 2, 1)
    hits = [row < recognised for row in range(4)]
    metrics = judged_as_published(tmp_path, name, images, labels, hits, torch.rand(8, 12), torch.arange(8) % 2)
    assert metrics == {name: None, f"{name}_images": recognised}


def test_of_more_than_a_batch_plgs_rest_is_left_out(tmp_path):
    images, labels = as_floats(110, 2, 3)
    real, real_labels = torch.rand(230, 12, generator=torch.Generator().manual_seed(4)), torch.arange(230) % 2
    metrics = judged_as_published(tmp_path, "fid_plg", images, labels, [True] * 110, real, real_labels)
    shown = Pooled()(PUBLISHED_FIDS["fid_plg"].made(images))
    expected = frechet(real[:200].double(), shown[:100].double())
    assert metrics == {"fid_plg": pytest.approx(expected, rel=1e-3), "fid_plg_images": 110}
