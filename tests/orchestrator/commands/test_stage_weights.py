"""Which published weights a sweep needs, a search's choices included."""

from smoothsweep.orchestrator.commands.importing.weights import needed_files
from smoothsweep.orchestrator.stages.judges import missing_imagenet_weights
from smoothsweep.sweeps.expand import expand
from smoothsweep.sweeps.load import load_sweep
from tests.tiny import write_tiny


def test_of_a_search_every_choice_counts(tmp_path):
    space = {
        "recipe.architecture": {"choices": ["resnet_small", "resnet18", "densenet121"]},
        "recipe.pretrained": {"choices": [True], "when": {"recipe.architecture": ["resnet18", "densenet121"]}},
    }
    objectives = {"test_acc": "max", "embedder_acc1": "min"}
    search = {"strategy": "random", "recipes": 3, "space": space, "objectives": objectives}
    loaded = load_sweep(write_tiny(tmp_path, search=search, grid={}, baseline={}))
    assert needed_files([loaded]) == ["resnet18", "densenet121"]


def test_of_a_grid_every_cell_counts(tmp_path):
    grid = {"recipe.architecture": ["resnet18", "resnet34"], "recipe.pretrained": [True]}
    assert needed_files([load_sweep(write_tiny(tmp_path, grid=grid, baseline={}))]) == ["resnet18", "resnet34"]


def test_an_attack_that_trains_students_needs_theirs(tmp_path, monkeypatch):
    monkeypatch.setattr("smoothsweep.orchestrator.stages.judges.staged_file", lambda name: None)
    students = {"architectures": ["efficientnet_b1"], "batch_size": 8}
    attacks = {
        form: {"kind": "lomma_gmi", "form": form, "gan": {"batch_size": 8}, **changed}
        for form, changed in (("ours", {"students": students}), ("L_logit", {}))
    }
    loaded = {form: load_sweep(write_tiny(tmp_path, attack=attack, prior=None)) for form, attack in attacks.items()}
    assert needed_files([loaded["ours"]]) == ["efficientnet_b1"] and needed_files([loaded["L_logit"]]) == []
    settings = [cell.settings for cell in expand(loaded["ours"])]
    [stop] = missing_imagenet_weights(settings)
    assert stop["weights"] == "efficientnet_b1"
    assert stop["message"].startswith("pretrained efficientnet_b1: expected its ImageNet weights here, got none; ")
