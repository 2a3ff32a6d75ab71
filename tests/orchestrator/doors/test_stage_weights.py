"""Which published weights a sweep needs, a search's choices included."""

from orchestrator.doors.stage_weights import needed_files
from sweeps.load import load_sweep
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
