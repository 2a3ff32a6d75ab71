"""What a sweep will not measure, or will not start, for want of weights: said by `plan`, met by `run`."""

import json
import re

import pytest
from tiny import searchable, tiny_sweep, write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import METRICS
from smoothsweep.core.models.weight_files import FOLDER_VARIABLE, WEIGHT_FILES, weight_file
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.importing.weights import needed_files
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.stages import judges
from smoothsweep.orchestrator.stages.judges import find_missing_weights, pretrained_architectures, unmeasured_lines
from smoothsweep.sweeps.expand import check, expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import InversionSweep

OBJECTIVES = {"test_acc": "max", "embedder_acc1": "min"}
LACKING = {  # judge -> its settings, the file it lacks
    "embedder": ({"name": "facenet"}, "facenet"),
    "general": ({}, "swag_vit_b_16"),
    "fidelity": ({"neighbours": 1}, "fid_inception"),
    "fid_lomma": ({}, "fid_inception"),
    "fid_plg": ({}, "inception_v3"),
}


@pytest.fixture
def staged(tmp_path, monkeypatch):
    """A folder of staged weights, still empty."""
    folder = tmp_path / "weights"
    folder.mkdir()
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    judges.staged_file.cache_clear()
    yield folder
    judges.staged_file.cache_clear()


def stage_file(folder, name):
    (folder / weight_file(name).file_name).write_bytes(b"weights")
    judges.staged_file.cache_clear()


def asking_for(*names):
    evaluator = tiny_sweep()["judges"]["evaluator"]
    return {"evaluator": evaluator, **{name: LACKING[name][0] for name in names}}


def not_measured(path):
    loaded = load_sweep(path)
    return unmeasured_lines(find_missing_weights(loaded, [trial.cell for trial in trials_of(loaded)]))


def plan_of(path, capsys, *more):
    assert main(["plan", str(path), "--store", str(path.parent / "store"), *more]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("judge", sorted(LACKING))
def test_plan_lists_a_judge_that_cannot_be_heard_with_its_columns_and_the_remedy(judge, staged, tmp_path, capsys):
    _, file = LACKING[judge]
    path = write_tiny(tmp_path, judges=asking_for(judge), grid={}, baseline={})
    [found] = json.loads(plan_of(path, capsys, "--json"))["unmeasured"]
    columns = [metric.key for metric in METRICS if metric.measured_by == judge]  # the table, not the stages' names
    assert found["judge"] == judge and found["columns"] == columns and columns and found["weights"] == file
    remedy = "smoothsweep weights stage"
    [line] = [line for line in plan_of(path, capsys).splitlines() if line.startswith("not measured")]
    assert judge in line and remedy in line and remedy in found["remedy"] and all(column in line for column in columns)
    if file:
        stage_file(staged, file)
        assert not_measured(path) == []


def test_weights_that_run_stops_for_are_in_the_plan_and_run_stops_for_the_first(staged, tmp_path, capsys):
    grid = {"recipe.architecture": ["resnet18", "resnet34"], "recipe.pretrained": [True]}
    path = write_tiny(tmp_path, grid=grid, baseline={})
    stops = json.loads(plan_of(path, capsys, "--json"))["stops"]
    assert [stop["weights"] for stop in stops] == ["resnet18", "resnet34"] == needed_files([load_sweep(path)])
    text = plan_of(path, capsys)
    assert len(re.findall("run will stop: pretrained resnet(18|34): expected its ImageNet weights here", text)) == 2
    for stop in stops:
        assert main(["run", str(path), "--store", str(tmp_path / "store"), "--yes"]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert line == f"smoothsweep: {stop['message']}" and not (tmp_path / "store").exists()
        stage_file(staged, stop["weights"])
    assert json.loads(plan_of(path, capsys, "--json"))["stops"] == []


def test_of_a_search_every_choice_of_its_space_and_every_objective_counts(staged, tmp_path, capsys):
    space = {
        "recipe.architecture": {"choices": ["resnet_small", "resnet18", "densenet121"]},
        "recipe.pretrained": {"choices": [True], "when": {"recipe.architecture": ["resnet18", "densenet121"]}},
    }
    search = {"strategy": "random", "recipes": 1, "space": space, "objectives": OBJECTIVES}
    changes = {**searchable("tiny", search), "judges": {"embedder": {"name": "facenet"}}}
    path = write_tiny(tmp_path, **changes, grid={}, baseline={})
    stops = json.loads(plan_of(path, capsys, "--json"))["stops"]
    assert [(stop["weights"], stop["needed_for"]) for stop in stops] == [
        ("resnet18", "pretrained resnet18"),
        ("densenet121", "pretrained densenet121"),
        ("facenet", "search: embedder_acc1"),
    ]
    assert {*needed_files([load_sweep(path)])} == {"resnet18", "densenet121", "facenet"}
    for stop in stops:
        assert main(["run", str(path), "--store", str(tmp_path / "store"), "--yes"]) == 2
        assert capsys.readouterr().err == f"smoothsweep: {stop['message']}\n"
        stage_file(staged, stop["weights"])


def test_a_run_ends_with_a_line_on_what_it_has_not_measured(staged, tmp_path):
    path = write_tiny(tmp_path, judges=asking_for("embedder", "fidelity"), grid={}, baseline={})
    [line] = not_measured(path)
    counts = {name: sum(metric.measured_by == name for metric in METRICS) for name in LACKING}
    for name, file in (("embedder", "facenet"), ("fidelity", "the FID network")):
        assert f"{name} ({counts[name]} columns): the weights of {file} are not here: smoothsweep weights stage" in line
    stage_file(staged, "facenet")
    stage_file(staged, "fid_inception")
    assert not_measured(path) == [] and set(WEIGHT_FILES) >= {"facenet", "fid_inception"}


def test_an_attack_that_trains_students_needs_theirs(tmp_path, staged):
    students = {"architectures": ["efficientnet_b1"], "batch_size": 8}
    attacks = {
        form: {"kind": "lomma_gmi", "form": form, "gan": {"batch_size": 8}, **changed}
        for form, changed in (("ours", {"students": students}), ("L_logit", {}))
    }
    loaded = {form: load_sweep(write_tiny(tmp_path, attack=attack, prior=None)) for form, attack in attacks.items()}
    assert needed_files([loaded["ours"]]) == ["efficientnet_b1"] and needed_files([loaded["L_logit"]]) == []
    [stop] = find_missing_weights(loaded["ours"], expand(loaded["ours"]))["stops"]
    assert stop["weights"] == "efficientnet_b1"
    assert stop["message"].startswith("pretrained efficientnet_b1: expected its ImageNet weights here, got none; ")


def settings(of_judges, **changes):
    return InversionSweep.model_validate(tiny_sweep(judges=of_judges, grid={}, baseline={}, **changes))


def shadows_of(recipe, **judge):
    asked = settings({"membership": {"shadows": 4, **judge}}, recipe=recipe, attack=None, prior=None, public=None)
    return {key: stage.fingerprint for key, stage in judges.shadow_stages(asked).items()}


def test_shadow_models_of_a_named_recipe_are_those_that_a_target_of_it_has():
    """One set for all recipes of a sweep: no second training of what is there."""
    plain = {**tiny_sweep()["recipe"], "epochs": 3}
    other = {**plain, "defense": {"kind": "label_smoothing", "alpha": -0.2}}
    own = shadows_of(plain)
    assert len(own) == 4 and own == shadows_of(plain, shadow_recipe=plain) == shadows_of(other, shadow_recipe=plain)
    assert not set(own.values()) & set(shadows_of(other).values())


@pytest.mark.parametrize(
    ("judge", "line"),
    [
        ({"shadow_recipe": {}}, "shadow_recipe: expected none without shadow models"),
        ({"shadows": 4, "shadow_recipe": {"poison": {"kind": "badnets"}}}, r"shadow_recipe.poison: expected none"),
        (
            {"shadows": 4, "shadow_recipe": {"stop_at_test_acc": {"trial": {"recipe.epochs": 1}}}},
            "shadow_recipe.stop_at_test_acc: expected a number, got",
        ),
        ({"shadows": 4, "shadow_recipe": {"epoch": 1}}, "shadow_recipe.epoch"),
    ],
)
def test_a_recipe_that_no_shadow_model_can_have_is_refused_by_its_key(judge, line):
    with pytest.raises(InputError, match=rf"^x: judges\.membership\.?.*{line}") as caught:
        check(tiny_sweep(judges={"membership": judge}), "x")
    assert "\n" not in str(caught.value)


def test_weights_that_a_named_recipe_starts_from_are_looked_for():
    recipe = {**tiny_sweep()["recipe"], "architecture": "resnet18", "pretrained": True}
    asked = settings({"membership": {"shadows": 4, "shadow_recipe": recipe}})
    assert pretrained_architectures(asked) == ["resnet18"]
