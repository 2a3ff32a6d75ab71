"""Every judge of the table by what it declares: what it plans, leaves and refuses. A new one needs no line here."""

import json
import math
import subprocess
import sys
from dataclasses import fields

import pandas as pd
import pytest
from tiny import tiny_sweep

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.judges.table import JUDGES, measured, stage_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.weights import unavailable_reasons
from smoothsweep.sweeps.loaded import check
from smoothsweep.tasks.registry import TASKS
from tests.orchestrator.settings_cases import OF_JUDGES
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


def test_planning_every_judge_loads_no_torch():
    code = "import sys, smoothsweep.core.judges.columns, smoothsweep.sweeps.schema; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture(scope="module")
def pipeline(request):
    return request.getfixturevalue("clean")


@pytest.mark.parametrize("name", NAMED)
def test_it_measures_what_it_declares_the_same_every_time(name, pipeline, tmp_path):
    settings = examples(name)
    stages = stages_of_a_trial("clean", judges=settings)
    if stage_of(name) not in stages.judges:
        pytest.skip(unavailable_reasons(check(tiny_sweep(judges=settings, **SETTINGS), name))[stage_of(name)])
    stage = stages.judges[stage_of(name)]
    execute_with_inputs(pipeline.store, stage)
    folder = pipeline.store.path(stage)
    found = json.loads((folder / "manifest.json").read_text())["metrics"]
    columns = [metric for metric in JUDGES[name].columns if metric.key in found]
    assert columns and (name not in measured() or len(columns) == len(JUDGES[name].columns))
    for metric in columns:
        value = found[metric.key]
        assert metric.null if value is None else math.isfinite(value)
        low, high = metric.range or (-math.inf, math.inf)
        assert value is None or low <= value <= high
    labels, said = pipeline.tensors("loot", "images")["labels"], folder / "per_image.parquet"
    if said.is_file():  # the rate that has a ceiling is the share of hits, and so is that of each class
        rows, key = pd.read_parquet(said), next(metric.key for metric in JUDGES[name].columns if metric.ceiling)
        assert rows["class"].tolist() == labels.tolist() and found[key] == pytest.approx(rows["hit"].mean())
        classes = pd.read_parquet(folder / "per_class.parquet").set_index("class")[key]
        assert classes.to_dict() == pytest.approx(rows.groupby("class")["hit"].mean().to_dict())
    again = tmp_path / "again"
    again.mkdir()
    once_more = TASKS[stage.name].function()(
        {**stage.config, **stage.hints},
        {role: pipeline.store.path(source) for role, source in stage.inputs.items()},
        again,
        context_of(tmp_path),
    )
    assert {metric.key: once_more[metric.key] for metric in columns} == {one.key: found[one.key] for one in columns}
    assert {path.name for path in again.iterdir()} == {path.name for path in folder.iterdir()} - {"manifest.json"}


def context_of(folder):
    from smoothsweep.tasks.context import TaskContext

    return TaskContext(work=folder)


SETTINGS_OF = {where.removeprefix("judges."): fields for _, where, fields in OF_JUDGES.values()}
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
def test_every_setting_changes_its_judge_and_no_other(name, field, pipeline, travels):
    """In its configuration and, of the same inputs, in what is measured: nothing remembers the value before."""
    before, value = judged(), SETTINGS_OF[name][field]
    after = judged(**{name: {**BESIDE[name], field: value}})
    others = {stage.name: stage.fingerprint for stage in before if stage.name != stage_of(name)}
    assert others == {stage.name: stage.fingerprint for stage in after if stage.name != stage_of(name)}
    one, other = (stages.judges[stage_of(name)] for stages in (before, after))
    assert one.fingerprint != other.fingerprint
    if (name, field) not in UNSEEN:
        for source in one.inputs.values():
            execute_with_inputs(pipeline.store, source)
        inputs = {role: pipeline.store.path(source) for role, source in one.inputs.items()}
        travels(one.name, {**one.config, **one.hints}, {**other.config, **other.hints}, inputs)


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_what_is_wrong_is_one_line_that_names_the_judge(name, protocol):
    asking(name, protocol=protocol)
    for changes in (*JUDGES[name].wrong, {"no_such_setting": 1}):
        with pytest.raises(InputError, match=rf"judges\.{name}") as caught:
            asking(name, changes, protocol)
        assert "\n" not in str(caught.value)
