"""Targets in the model registry: they load back without our code and without unpickling, and give the same logits."""

import mlflow.pytorch
import pytest
import torch
from safetensors.torch import save_file

from smoothsweep.orchestrator.tracking.exporting import export
from smoothsweep.tasks.training import Training, load_classifier, new_classifier
from tests.dear import but_dear
from tests.mlflow_look import files, look, record, reported

# MLflow's own, about its type hints, and torch's, when it maps a file of tensors.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*Any type hint is inferred:UserWarning"),
    pytest.mark.filterwarnings("ignore:The given buffer is not writable:UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning:mlflow.*"),
]
DEFENSES = {"resnet_small": None, "vgg_small": None, "mid": {"kind": "mid", "beta": 0.01}}


def with_weights(trials, store):
    """Give every target the weights of a freshly made network, as its configuration says; returns the last."""
    for trial in trials:
        stage = next(stage for stage in trial.stages if stage.name == "target")
        model = new_classifier(Training.of(dict(stage.config)), 4)
        state = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
        manifest, kept = store.manifest(stage), store.needed_file(stage, "history.parquet").read_bytes()
        store.discard(stage)
        draft = store.draft(stage)
        (draft / "history.parquet").write_bytes(kept)
        save_file(state, str(draft / "weights.safetensors"))
        store.commit(stage, draft, manifest)
    return stage, store.path(stage)


KINDS = [("resnet_small", "clean"), ("vgg_small", "clean"), ("mid", "clean"), ("mid", "paper")]


@pytest.mark.parametrize("trained", but_dear(KINDS, KINDS[1:3]), ids="-".join)
def test_a_target_loads_back_with_the_same_logits(load, store, finished, tmp_path, monkeypatch, trained):
    kind, protocol = trained
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    grid = {"recipe.defense": [DEFENSES[kind]]} if kind == "mid" else {"recipe.architecture": [kind]}
    grid |= {"judges.evaluator.architecture": ["resnet_small"]} if kind == "vgg_small" else {}
    stage, folder = with_weights(finished(load(grid=grid, baseline={}, protocol=protocol)), store)
    export(folder, dict(stage.config), tmp_path / "model")
    assert not list((tmp_path / "model").rglob("*.pth")) and list((tmp_path / "model").rglob("*.pt2"))
    copy = mlflow.pytorch.load_model(str(tmp_path / "model"))
    model = load_classifier(folder, dict(stage.config), "cpu", readout="mean" if kind == "mid" else None)
    for count in (1, 2, 5):
        images = torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(count)) * 2 - 1
        with torch.no_grad():
            assert torch.allclose(copy(images), model(images), atol=1e-6)


def test_the_front_is_registered_once_with_its_leak_and_the_best_has_the_alias(load, store, uri, finished):
    loaded = load(seeds=[1, 2])
    trials = finished(loaded)
    with_weights(trials, store)
    told = reported(loaded, trials, store)
    assert record(loaded, store, trials, models="frontier", result=told).remarks == []
    client, kinds = look(uri)
    runs = {run.data.tags["smoothsweep.trial"]: run for run in kinds["trial"]}
    versions = client.search_model_versions("name = 'tiny'")
    best = client.get_model_version_by_alias("tiny", "recommended")
    leaks = {run.info.run_name: run.data.metrics["embedder_acc1"] for run in kinds["recipe"]}
    assert min(leaks, key=leaks.get) == f"{best.tags['smoothsweep.recipe']} · mean"
    for version in versions:
        run = runs[version.tags["smoothsweep.trial"]]
        assert version.run_id == run.info.run_id and version.tags["seed"] == "1"
        assert "model/MLmodel" in files(client, run)
        assert float(version.tags["embedder_acc1"]) == pytest.approx(run.data.metrics["embedder_acc1"], rel=1e-5)
        assert float(version.tags["test_acc"]) == pytest.approx(run.data.metrics["test_acc"], rel=1e-5)
        assert version.tags["protocol"] == "clean" and float(version.tags["recipe_alpha"]) <= 0.1
        assert float(version.tags["mean/embedder_acc1"]) > 0
        # As another driver does that has looked before this one had entered it.
        client.create_model_version("tiny", version.source, version.run_id, tags=version.tags, await_creation_for=0)
    record(loaded, store, trials, models="frontier", result=told)
    assert versions and client.search_model_versions("name = 'tiny'") == versions
