"""No stage seals a number that is not finite, but where the registry says that it may."""

from __future__ import annotations

import math
import re
import shutil

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from smoothsweep.core.errors import NotFinite
from smoothsweep.orchestrator.planning.trial import inversion_stages
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs, refuse_not_finite
from smoothsweep.orchestrator.scheduling.scheduler import one_line
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import check
from smoothsweep.tasks.registry import TASKS
from tests.pipeline import SETTINGS, made_pipeline
from tests.tiny import tiny_sweep

WILD = (math.nan, math.inf, -math.inf)
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return made_pipeline(tmp_path_factory.mktemp("pipeline"), "clean")


@pytest.fixture
def store(tmp_path):
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    return store


@given(
    shape=st.lists(st.integers(0, 4), max_size=3),
    dtype=st.sampled_from(FLOATS),
    wild=st.sampled_from((*WILD, 1.0)),
    place=st.integers(0, 63),
)
def test_one_wild_number_anywhere_in_a_tensor_is_found_and_counted(shape, dtype, wild, place, tmp_path_factory):
    folder, tensor = tmp_path_factory.mktemp("draft"), torch.ones(shape, dtype=dtype)
    if tensor.numel():
        tensor.view(-1)[place % tensor.numel()] = wild
    whole = torch.full((3,), 7, dtype=torch.int64)
    save_file({"a.fine": torch.ones(2), "b.looked_at": tensor, "c.whole": whole}, folder / "x.safetensors")
    is_wild = tensor.numel() > 0 and not math.isfinite(wild)
    if is_wild:
        said = f"x.safetensors: b.looked_at: expected finite numbers, got 1 of {tensor.numel()} that are not"
        with pytest.raises(NotFinite, match=f"^{re.escape(said)}$"):
            refuse_not_finite(folder, {}, ())
    else:
        refuse_not_finite(folder, {}, ())
    for allowed in ("x.safetensors", "x.safetensors:b.looked_at"):
        refuse_not_finite(folder, {}, (allowed,))


@given(
    values=st.lists(st.sampled_from((0.5, -2.0, *WILD, None)), min_size=1, max_size=6),
    dtype=st.sampled_from(("float64", "float32")),
)
def test_a_column_of_numbers_is_finite_and_whole_and_others_may_have_gaps(values, dtype, tmp_path_factory):
    folder = tmp_path_factory.mktemp("draft")
    column = pd.Series([math.nan if value is None else value for value in values], dtype=dtype)
    gaps = pd.array([None] * len(values), dtype="boolean")
    table = pd.DataFrame({"class": range(len(values)), "fine": 1.0, "looked_at": column, "hit": gaps, "name": None})
    table.to_parquet(folder / "rows.parquet", index=False)
    bad = int((~np.isfinite(column.to_numpy(dtype="float64"))).sum())
    if bad:
        said = f"rows.parquet: looked_at: expected finite numbers, got {bad} of {len(values)} that are not"
        with pytest.raises(NotFinite, match=f"^{re.escape(said)}$"):
            refuse_not_finite(folder, {}, ())
    else:
        refuse_not_finite(folder, {}, ())
    refuse_not_finite(folder, {}, ("rows.parquet:looked_at",))


@pytest.mark.parametrize("value", WILD)
def test_a_metric_is_finite_or_was_not_measured(value, tmp_path):
    with pytest.raises(NotFinite, match=f"^metrics: b: expected a finite number, got {value}$"):
        refuse_not_finite(tmp_path, {"a": 1.0, "none": None, "count": 3, "b": value}, ())
    refuse_not_finite(tmp_path, {"a": 1.0, "none": None, "b": value}, ("metrics:b",))


def poisonings(folder):
    """(file, what in it, a function that makes one number of it wild) of everything that an artifact holds."""
    for path in sorted(folder.glob("*.safetensors")):
        for name, tensor in load_file(path).items():
            if tensor.is_floating_point() and tensor.numel():
                yield path.name, name
    for path in sorted(folder.glob("*.parquet")):
        for name in pd.read_parquet(path).select_dtypes("floating").columns:
            yield path.name, name


def poison(path, name):
    if path.suffix == ".parquet":
        table = pd.read_parquet(path)
        table.loc[table.index[-1], name] = math.nan
        table.to_parquet(path, index=False)
        return
    tensors = {key: value.clone() for key, value in load_file(path).items()}
    tensors[name].view(-1)[-1] = math.nan
    save_file(tensors, path)


def test_what_every_stage_of_a_trial_seals_is_looked_at_number_by_number(pipeline, tmp_path):
    """Each tensor and column of each artifact, made wild in a copy: refused by name, but where it is declared."""
    seen = 0
    for stage in pipeline.stages:
        folder, allowed = pipeline.store.path(stage), TASKS[stage.name].not_finite
        for file, name in poisonings(folder):
            copy = tmp_path / f"{stage.name}{seen}"
            shutil.copytree(folder, copy)
            refuse_not_finite(copy, {}, allowed)
            poison(copy / file, name)
            if file in allowed or f"{file}:{name}" in allowed:
                refuse_not_finite(copy, {}, allowed)
            else:
                with pytest.raises(NotFinite, match=f"^{re.escape(f'{file}: {name}: ')}"):
                    refuse_not_finite(copy, {}, allowed)
            shutil.rmtree(copy)
            seen += 1
    assert seen > 30


def test_a_gan_whose_statistics_have_overflowed_is_not_finished(pipeline):
    """Its losses stay finite, for a batch is divided by its own deviation: what is kept of them does not."""
    gan = {"steps": 2, "critic_steps": 1, "batch_size": 4, "width": 2, "z_dim": 4, "lr": 1e5}
    attack = {"kind": "plg_mi", "top_n": 4, "gan": gan, "steps": 3, "selected": 3, "seed": 9}
    raw = tiny_sweep(protocol="clean", **{**SETTINGS, "attack": attack})
    stage = inversion_stages(check(raw, "plg"), 1).attack.inputs["plg_gan"]
    with pytest.raises(NotFinite) as caught:
        execute_with_inputs(pipeline.store, stage)
    line = str(caught.value)
    assert re.match(rf"^{stage.label}: generator\.network\.safetensors: \S*running_var: expected finite numbers", line)
    assert "try a lower learning rate" in line and "\n" not in line and one_line(caught.value) == line
    assert not pipeline.store.has(stage)
