"""Every judge of the table by what it declares: what it plans, leaves and refuses. A new one needs no line here."""

import json
import math
import subprocess
import sys
from dataclasses import MISSING, fields
from typing import Literal, get_args, get_origin, get_type_hints

import pandas as pd
import pytest
from annotated_types import Ge, Gt, Le, Lt
from tiny import tiny_sweep

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import BY_KEY
from smoothsweep.core.judges.table import JUDGES, measured, stage_of
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages.judge_availability import unavailable_reasons
from smoothsweep.sweeps.loaded import check
from smoothsweep.tasks.registry import TASKS
from tests.pipeline import SETTINGS, stages_of_a_trial

NAMED = [name for name, judge in JUDGES.items() if not judge.requested_by]  # the others have no settings
READS = {"loot", "data", "target", "prior"}


def examples(name, changes=()):
    """`judges` of a sweep file: this one as its example is, and what it must have beside it."""
    beside = {other: dict(JUDGES[other].example) for other in JUDGES[name].requires}
    return {**beside, name: {**JUDGES[name].example, **dict(changes)}}


def asking(name, changes=(), protocol="clean"):
    return check(tiny_sweep(protocol=protocol, judges=examples(name, changes), **SETTINGS), name)


def another(hint, value):
    """Another value of that type, within its bounds; None where none is known."""
    bounds = getattr(hint, "__metadata__", ())
    kind = get_args(hint)[0] if bounds else hint
    if get_origin(kind) is Literal:
        return next((one for one in get_args(kind) if one != value), None)
    if kind is bool:
        return not value
    if kind not in (int, float):
        return None
    holds = {
        Ge: lambda b, v: v >= b.ge,
        Gt: lambda b, v: v > b.gt,
        Le: lambda b, v: v <= b.le,
        Lt: lambda b, v: v < b.lt,
    }
    tried = [value + 1, value - 1, value / 2, value * 2] if kind is float else [value + 1, value - 1]
    return next((v for v in tried if all(holds[type(b)](b, v) for b in bounds if type(b) in holds)), None)


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


@pytest.mark.parametrize("name", NAMED)
def test_every_setting_of_it_travels_to_its_stage(name):
    hints = get_type_hints(JUDGES[name], include_extras=True)
    before = inversion_stages(asking(name), 1).judges.get(stage_of(name))
    for field in fields(JUDGES[name]) if before else ():
        default = JUDGES[name].example.get(field.name, None if field.default is MISSING else field.default)
        if (value := another(hints[field.name], default)) is not None:
            if (name, field.name) == ("membership", "shadows"):
                value = 4  # an even number, which no bound of the type says
            after = inversion_stages(asking(name, {field.name: value}), 1).judges.get(stage_of(name))
            if after is None:  # of a network whose weights are not here
                continue
            is_hint = field.name in JUDGES[name].hints
            assert (after.fingerprint == before.fingerprint) == is_hint, field.name
            assert not is_hint or after.hints[field.name] == value


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_what_is_wrong_is_one_line_that_names_the_judge(name, protocol):
    asking(name, protocol=protocol)
    for changes in (*JUDGES[name].wrong, {"no_such_setting": 1}):
        with pytest.raises(InputError, match=rf"judges\.{name}") as caught:
            asking(name, changes, protocol)
        assert "\n" not in str(caught.value)
