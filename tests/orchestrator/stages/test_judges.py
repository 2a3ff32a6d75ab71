"""Which judges a sweep hears and at which sizes; what it will not measure, or not start, for want of weights."""

import hashlib
import json
import re

import pytest
from tiny import searchable, tiny_sweep, write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import METRICS
from smoothsweep.core.models.weight_files import FOLDER_VARIABLE, WEIGHT_FILES, weight_file
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.importing.weights import needed_files
from smoothsweep.orchestrator.planning.trial import inversion_stages, trials_of
from smoothsweep.orchestrator.stages import graph
from smoothsweep.orchestrator.stages.graph import (
    find_missing_weights,
    pretrained_architectures,
    reconstruction_sizes,
    unavailable_reasons,
    unmeasured_lines,
)
from smoothsweep.sweeps.expand import check, expand
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import InversionSweep
from smoothsweep.tasks.registry import task

FACENET = "the weights of facenet are not here: smoothsweep weights stage"
INCEPTION = "the weights of the FID network are not here: smoothsweep weights stage"
IMAGENET = "the weights of inception_v3 are not here: smoothsweep weights stage"
BOTH = {"embedder": {"name": "facenet"}, "fidelity": {"neighbours": 1}}


@pytest.fixture
def staged(tmp_path, monkeypatch):
    """A folder of staged weights, still empty."""
    folder = tmp_path / "weights"
    folder.mkdir()
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    graph.staged_file.cache_clear()
    yield folder
    graph.staged_file.cache_clear()


def stage_file(folder, name):
    path = folder / weight_file(name).file_name
    path.write_bytes(name.encode())
    graph.staged_file.cache_clear()
    return path


def settings(of_judges, **changes):
    return InversionSweep.model_validate(tiny_sweep(judges=of_judges, grid={}, baseline={}, **changes))


def test_a_judge_whose_weights_are_not_staged_is_not_heard_and_says_why(staged):
    asked = settings(BOTH)
    beside = {"judge_verification": FACENET, "judge_prior_reach": FACENET}  # of the embedder, which they accompany
    assert unavailable_reasons(asked) == {"judge_embedder": FACENET, "judge_fidelity": INCEPTION, **beside}
    stages = inversion_stages(asked, 1)
    assert not stages.judges
    stage_file(staged, "facenet")
    assert unavailable_reasons(asked) == {"judge_fidelity": INCEPTION}
    stage_file(staged, "fid_inception")
    assert unavailable_reasons(asked) == {}


def test_of_a_published_set_every_judge_sees_pictures_of_its_own_size(staged, tmp_path):
    (tmp_path / "celeba").mkdir()
    (tmp_path / "celeba" / "list.txt").write_text("faces")
    stage_file(staged, "facenet")
    small = {"architecture": "vgg_small", "pretrained": False, "epochs": 1}
    judged = {
        "embedder": {"name": "facenet"},
        "evaluator": {**small, "image_size": 48},
        "knowledge": {**small, "image_size": 40},
    }
    stages = inversion_stages(settings(judged, data={"kind": "celeba", "path": str(tmp_path / "celeba")}), 1)
    sizes = {
        "target": stages.target.inputs["data"],
        "embedder": stages.judges["judge_embedder"].inputs["real"].inputs["data"],
        "evaluator": stages.judges["judge_evaluator"].inputs["real"].inputs["data"],
        "knowledge": stages.judges["knowledge"].inputs["data"],
    }
    found = {name: stage.config["size"] for name, stage in sizes.items()}
    assert found == {"target": 32, "embedder": 160, "evaluator": 48, "knowledge": 40}


@pytest.mark.parametrize(
    ("of_judges", "sizes"),
    [
        ({}, [0]),
        ({"embedder": {"name": "synthetic"}}, [0]),
        ({"embedder": {"name": "facenet"}}, [160]),
        ({"fidelity": {"neighbours": 1}}, [299]),
        ({"evaluator": {"architecture": "vgg_small", "pretrained": False, "image_size": 48}}, [48]),
        (
            {
                "knowledge": {"architecture": "vgg_small", "pretrained": False, "image_size": 40},
                "embedder": {"name": "facenet"},
            },
            [40, 160],
        ),
        ({**BOTH, "evaluator": {"architecture": "vgg_small", "pretrained": False, "image_size": 299}}, [160, 299]),
    ],
)
def test_protocol_paper_keeps_the_reconstructions_at_every_judges_size(staged, of_judges, sizes):
    assert reconstruction_sizes(settings(of_judges)) == sizes


EVALUATOR = {"architecture": "vgg_small", "pretrained": False, "image_size": 48}
PUBLISHED = {"evaluator": EVALUATOR, "fid_lomma": {}, "fid_plg": {}}


def test_the_published_fids_are_judges_of_their_own_over_what_the_evaluator_recognises(staged):
    asked = settings(PUBLISHED, protocol="paper")
    assert unavailable_reasons(asked) == {"judge_fid_lomma": INCEPTION, "judge_fid_plg": IMAGENET}
    stages = inversion_stages(asked, 1)
    assert list(stages.judges) == ["judge_evaluator"]
    files = {"fid_lomma": stage_file(staged, "fid_inception"), "fid_plg": stage_file(staged, "inception_v3")}
    stages = inversion_stages(asked, 1)
    assert stages.reconstructions.config["decoded"] == 32 and stages.reconstructions.config["sizes"] == [
        48
    ]  # the target's, the evaluator's
    for name, path in files.items():
        stage = stages.judges[f"judge_{name}"]
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        assert stage.config == {"network": name, "side": 32, "content": content}  # under both protocols
        assert stage.hints == {"path": str(path)}
        assert (
            stage.inputs["verdicts"] is stages.judges["judge_evaluator"]
            and stage.inputs["loot"] is stages.reconstructions
        )
        assert stage.inputs["real"].config == {**stage.config, "parts": ["train"]}
        assert stage.inputs["real"].inputs == {"data": stages.data}
    clean = inversion_stages(settings(PUBLISHED), 1)
    assert (
        "decoded" not in clean.reconstructions.config
        and clean.judges["judge_fid_plg"].config == stages.judges["judge_fid_plg"].config
    )


@pytest.mark.parametrize("name", ["fid_lomma", "fid_plg"])
def test_a_published_fid_without_an_evaluator_is_refused(name):
    with pytest.raises(ValueError, match=f"{name}: expected judges.evaluator beside it"):
        settings({name: {}})


def test_the_surrogate_of_protocol_paper_draws_one_crop_for_a_batch(staged):
    surrogate = {"architecture": "resnet_small", "pretrained": False, "image_size": 32, "checkpoint_every": 7}
    for protocol, shared in (("paper", True), ("clean", None)):
        stage = inversion_stages(settings({"knowledge": surrogate}, protocol=protocol), 1).judges["knowledge"]
        assert stage.config["augmentation"].get("shared") is shared and stage.config["protocol"] == protocol
        assert stage.hints == {"checkpoint_every": 7} and "checkpoint_every" not in stage.config


FEATURES = {"name": "synthetic"}


def test_verification_and_reach_stand_beside_an_embedder_and_leave_its_stage_as_it_was():
    alone, beside = (
        inversion_stages(settings({"embedder": {**FEATURES, "verify": verify}}), 1).judges for verify in (False, None)
    )
    assert list(alone) == ["judge_embedder"]
    assert list(beside) == ["judge_embedder", "judge_verification", "judge_prior_reach"]
    embedder, verified, reach = beside.values()
    assert embedder.fingerprint == alone["judge_embedder"].fingerprint
    assert verified.inputs["real"] == reach.inputs["real"] == embedder.inputs["real"]
    assert verified.inputs["strangers"].inputs["public"] == reach.inputs["projected"].inputs["prior"].inputs["public"]
    other = inversion_stages(settings({"embedder": {**FEATURES, "verify": None}}), 2).judges
    assert other["judge_prior_reach"] == reach and other["judge_verification"] != verified  # the reach is of no trial


def test_verification_that_is_asked_for_needs_strangers():
    asked = {"embedder": {**FEATURES, "verify": True}}
    strangers = inversion_stages(settings(asked), 1).judges["judge_verification"].inputs["strangers"]
    few = {"public": {"kind": "synthetic", "identities": 7, "per_identity": 7}}
    with pytest.raises(InputError, match="expected 50 or more strangers, for a threshold of 1 % false accepts, got 49"):
        task("strangers").refuse({**strangers.config, **strangers.hints}, few)
    where_enough = {"embedder": {**FEATURES, "verify": None}}
    unasked = inversion_stages(settings(where_enough), 1).judges["judge_verification"].inputs["strangers"]
    assert unasked.fingerprint == strangers.fingerprint
    task("strangers").refuse({**unasked.config, **unasked.hints}, few)


OBJECTIVES = {"test_acc": "max", "embedder_acc1": "min"}
LACKING = {  # judge -> its settings, the file it lacks
    "embedder": ({"name": "facenet"}, "facenet"),
    "general": ({}, "swag_vit_b_16"),
    "fidelity": ({"neighbours": 1}, "fid_inception"),
    "fid_lomma": ({}, "fid_inception"),
    "fid_plg": ({}, "inception_v3"),
}


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


def shadows_of(recipe, **judge):
    asked = settings({"membership": {"shadows": 4, **judge}}, recipe=recipe, attack=None, prior=None, public=None)
    return {key: stage.fingerprint for key, stage in graph.shadow_stages(asked).items()}


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
