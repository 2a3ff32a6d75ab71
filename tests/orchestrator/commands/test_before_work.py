"""What a stage would refuse is refused before anything is done, and what is measured can be written."""

import json
import subprocess
import sys

import pandas as pd
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from tiny import tiny_sweep, write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.trials import trials_of
from smoothsweep.orchestrator.reading.results import results_table, write_rows
from smoothsweep.orchestrator.store.local import LocalStore
from smoothsweep.sweeps.load import load_sweep
from tests.planned_cases import NETWORK


def refused(tmp_path, capsys, overrides, words):
    """Both commands refuse it in one line, and neither leaves a store."""
    for command in ("plan", "run"):
        store = tmp_path / "store"
        sets = [word for override in overrides for word in ("--set", override)]
        assert main([command, str(write_tiny(tmp_path)), "--store", str(store), *sets]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert words in line and not store.exists()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["attack.crop_scale=[0.9, 1.1]"], "attack.crop_scale: expected a pair with 0 < first <= second <= 1"),
        (["attack.selection_crop_scale=[0.0, 1.0]"], "attack.selection_crop_scale: expected a pair with 0 < first"),
        (["attack.selection_crop_ratio=[1.2, 0.8]"], "attack.selection_crop_ratio: expected a pair with 0 < first"),
        (["recipe.augmentation.crop_scale=[0.5, 2.0]"], "crop_scale: expected 0 < low <= high <= 1"),
        (["recipe.image_size=16"], "resnet_small: expected images of at least 32 pixels, got 16"),
        (["judges.evaluator.architecture=vit_b_16"], "vit_b_16: expected images of 224 pixels, got 32"),
        (["attack.pool.seed=-1"], "attack.pool.seed: expected a number of at least 0, got -1"),
        (["seeds=[9223372036854775808]"], "expected a whole number of at most"),
        (["classes=[4]"], "classes: expected labels below 4, got 4"),
        (["classes=[1]", "attack.selected=1"], "judges.knowledge: expected at least 2 reconstructions"),
        (["data.identities=1001", "judges.evaluator={architecture: inception_v3}"], "at most 1000 classes"),
        (["attack={kind: if_gmi}"], "prior: expected a StyleGAN2, whose feature maps this attack moves, got 'eigenfac"),
        (["attack={kind: if_gmi}", "prior=null"], "prior: expected what this attack decodes its latents with, got non"),
        (
            ["attack={kind: if_gmi}", "prior={kind: shipped}", "public=null"],
            "attack.stage_steps: expected at most 5 stages, as many as a prior of 64 pixels has blocks, got 8",
        ),
        (["resources={attack_compile: true, attack_cuda_graphs: true}"], "expected at most one of them, got both"),
    ],
)
def test_impossible_settings_are_refused_before_any_work(tmp_path, capsys, overrides, words):
    refused(tmp_path, capsys, overrides, words)


@pytest.mark.parametrize("content", ["nonsense", "empty", "another network"])
def test_a_judges_weights_file_is_read_before_any_work(tmp_path, capsys, content):
    path = tmp_path / "weights.safetensors"
    path.write_bytes(b"nonsense" if content == "nonsense" else b"")
    if content == "another network":
        save_file({"a": torch.zeros(1)}, path)
    override = f"judges.embedder={{name: mobilefacenet_a, weights: {path}}}"
    refused(tmp_path, capsys, [override], "image embeddings: embedder mobilefacenet_a: ")
    refused(tmp_path, capsys, [f"judges.fidelity={{weights: {path}, neighbours: 1}}"], "image embeddings: ")


def test_a_priors_weights_file_is_opened_before_any_work(tmp_path, capsys):
    folder = tmp_path / "prior"
    folder.mkdir()
    (folder / "weights.safetensors").write_bytes(b"nonsense")
    config = {**NETWORK, "mapping_layers": 1, "mbstd_group": 4}
    (folder / "prior.json").write_text(json.dumps({"kind": "stylegan2", "config": config}))
    refused(tmp_path, capsys, [f"prior={{kind: folder, path: {folder}}}", "public=null"], "expected a safetensors file")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("eigenfaces", "prior: expected a StyleGAN2, whose feature maps this attack moves, got 'eigenfaces'"),
        (
            "stylegan2",
            "attack.stage_steps: expected at most 4 stages, as many as a prior of 32 pixels has blocks, got 8",
        ),
    ],
)
def test_an_attack_on_feature_maps_looks_into_the_folder_of_a_prior(tmp_path, capsys, kind, words):
    config = (
        {"resolution": 32, "components": 4}
        if kind == "eigenfaces"
        else {**NETWORK, "mapping_layers": 1, "mbstd_group": 4}
    )
    (tmp_path / "prior.json").write_text(json.dumps({"kind": kind, "config": config}))
    save_file({"a": torch.zeros(1)}, tmp_path / "weights.safetensors")
    prior = f"prior={{kind: folder, path: {tmp_path}}}"
    refused(tmp_path, capsys, ["attack={kind: if_gmi}", prior, "public=null"], words)


def test_the_checks_of_a_common_sweep_load_no_torch(repository):
    code = (
        "import sys; from pathlib import Path; from smoothsweep.sweeps.load import load_sweep\n"
        "from smoothsweep.orchestrator.planning.plan import *\n"
        "from smoothsweep.orchestrator.planning.trials import trials_of\n"
        "from smoothsweep.orchestrator.store.local import LocalStore\n"
        "store = LocalStore(root=Path('/nonexistent')); loaded = load_sweep(Path('sweeps/quickstart.yaml'))\n"
        "refuse_impossible(make_plan(trials_of(loaded, store), store)); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=repository)
    assert done.stdout.strip() == "False"


VALUES = {
    "recipe.lr": [0.01, 1, 1e-3],
    "attack.pool.truncation_cutoff": [None, 1, 2],
    "classes": ["all", [0, 1], [2]],
    "recipe.stop_at_test_acc": [None, 0.5, {"trial": {"recipe.epochs": 1}}],
    "attack.clip": [None, True, False],
    "recipe.defense": [{"alpha": 0.1}, {"kind": "label_smoothing", "alpha": -0.1}],
    "attack.loss": ["poincare"],
    "attack.seed": [0, 2**63 - 1],
    "recipe.betas": [[0.9, 0.99], [0.5, 1e-3]],
    "attack.discriminator_weight": [None, 0],
    "recipe.lr_milestones": [None, [0.5], []],
}
grids = st.dictionaries(st.sampled_from(sorted(VALUES)), st.none(), min_size=1, max_size=3).flatmap(
    lambda keys: st.fixed_dictionaries(
        {key: st.lists(st.sampled_from(VALUES[key]), min_size=1, max_size=3, unique_by=repr) for key in keys}
    )
)


@settings(max_examples=25, deadline=None)
@given(grid=grids, seeds=st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=2, unique=True))
def test_the_rows_of_any_sweep_can_be_written_and_read(tmp_path_factory, grid, seeds):
    folder = tmp_path_factory.mktemp("rows")
    path = folder / "sweep.yaml"
    path.write_text(yaml.safe_dump(tiny_sweep(grid=grid, baseline={}, seeds=seeds), sort_keys=False))
    try:
        trials = trials_of(load_sweep(path))
    except InputError:
        return  # a grid of which two cells are the same, say
    table = results_table(trials, LocalStore(root=folder / "store"), {trials[0].id: "it failed"})
    write_rows(table, folder / "results.parquet")
    read = pd.read_parquet(folder / "results.parquet")
    assert list(read["seed"]) == [trial.seed for trial in trials] and list(read.columns) == list(table.columns)
