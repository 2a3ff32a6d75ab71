"""The judges' stages, and judges that others trained."""

import hashlib
import json
import re

import pytest
import torch
import torchvision

from smoothsweep.core.errors import InputError
from smoothsweep.core.judges.columns import METRICS
from smoothsweep.core.models.weight_files import FOLDER_VARIABLE, weight_file
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.commands.importing.weights import needed_files
from smoothsweep.orchestrator.planning.trial import inversion_stages, run_trial, trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.stages import graph
from smoothsweep.orchestrator.stages.graph import (
    find_missing_weights,
    reconstruction_sizes,
    unavailable_reasons,
    unmeasured_lines,
)
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.expand import check
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.sweeps.schema import InversionSweep
from smoothsweep.tasks.training import load_classifier
from tests.foreign_classifier import IMAGENET_MEAN, IMAGENET_STD, PEOPLE, imagenet_images
from tests.tiny import tiny_sweep, write_tiny

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


ALPHABETICAL = sorted(PEOPLE)
BY_SIZE = sorted(PEOPLE, key=PEOPLE.get, reverse=True)
IMAGENET_SIDE = ["--mean", *map(str, IMAGENET_MEAN), "--std", *map(str, IMAGENET_STD)]


@pytest.fixture(scope="module")
def place(owned, tmp_path_factory):
    """The people, the owner's weights, and both orders of the names."""
    folder, (root, _, _) = tmp_path_factory.mktemp("foreign"), owned
    for name in ("people", "own.pth"):
        (folder / name).symlink_to(root / name)
    for name, order in (("alphabetical", ALPHABETICAL), ("by_size", BY_SIZE)):
        (folder / f"{name}.txt").write_text("\n".join(order) + "\n")
    return folder


def bring(place, out, *flags):
    arguments = [str(place / "own.pth"), "--architecture", "resnet18", "--classes", "6", "--image-size", "32"]
    return main(["import", "target", *arguments, "--out", str(out), *map(str, flags)])


def named(place, order):
    return ["--class-names", place / f"{order}.txt"]


def stages_of(place, tmp_path, imported, **changes):
    """Of a sweep whose target is the imported one, unless `imported` is None; the people are ordered by size."""
    data = {"kind": "labelled", "path": str(place / "people"), "size": 32, "largest_classes": 6, "test_fraction": 0.3}
    changes |= {"recipe": {"imported": str(imported)}} if imported else {}
    [trial] = trials_of(load_sweep(write_tiny(tmp_path, data=data, grid={}, baseline={}, **changes)))
    store = open_store(str(tmp_path / "store"))
    store.open_for_writing()
    return store, trial, inversion_stages(trial.settings, trial.seed)


def test_the_right_card_gives_the_models_own_answers_in_the_datas_order(place, tmp_path):
    assert bring(place, tmp_path / "own", *IMAGENET_SIDE, *named(place, "alphabetical")) == 0
    store, _, stages = stages_of(place, tmp_path, tmp_path / "own", judges={})
    execute_with_inputs(store, stages.target)
    assert store.manifest(stages.target)["metrics"]["test_acc"] > 0.95
    assert json.loads((store.path(stages.data) / "names.json").read_text()) == BY_SIZE
    network = torchvision.models.resnet18(num_classes=len(PEOPLE)).eval()
    network.load_state_dict(torch.load(place / "own.pth", weights_only=True))
    images, _ = imagenet_images(place / "people", ALPHABETICAL)
    mean, std = (torch.tensor(values)[:, None, None] for values in (IMAGENET_MEAN, IMAGENET_STD))
    ours = (((images * std + mean) * 2 - 1)[::9]).requires_grad_()
    model = load_classifier(store.path(stages.target), dict(stages.target.config), "cpu")
    logits = model(ours)
    with torch.no_grad():
        theirs = network(images[::9])[:, [ALPHABETICAL.index(name) for name in BY_SIZE]]
    torch.testing.assert_close(logits, theirs, rtol=1e-4, atol=1e-4)
    logits.sum().backward()
    assert ours.grad.abs().sum() > 0  # the attack's gradients go through the normalisation


WRONG = {
    "normalisation": (("alphabetical", []), "with ImageNet mean/std"),
    "order": (("by_size", IMAGENET_SIDE), "with alphabetical classes"),
    "both": (("by_size", []), "with ImageNet mean/std and alphabetical classes"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_under_a_wrong_card_nothing_is_attacked_and_the_cause_is_named(place, tmp_path, wrong):
    (order, flags), words = WRONG[wrong]
    assert bring(place, tmp_path / "own", *flags, *named(place, order)) == 0
    store, trial, stages = stages_of(place, tmp_path, tmp_path / "own", judges={})
    with pytest.raises(InputError, match="recognises real test images") as refused:
        run_trial(trial, lambda stage: execute_with_inputs(store, stage))
    message = str(refused.value)
    assert f"{words};" in message and "as stated" in message and "\n" not in message
    assert not store.has(stages.target) and not store.has(stages.attack)


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["Ann", "bob", "cy", "dot", "eve", "gus"], "expected class names of the data (such as Ann), got gus"),
        (["Ann", "bob", "cy", "dot", "eve"], "class_names: expected 6 names, got 5"),
        (["Ann", "bob", "cy", "dot", "eve", "eve"], "expected every class once, got 'eve' twice"),
        (["Ann", "", "cy", "dot", "eve", "fay"], "line 2: expected a name"),
    ],
)
def test_names_that_do_not_match_are_one_line(place, tmp_path, capsys, names, words):
    (tmp_path / "names.txt").write_text("\n".join(names))
    flags = [*IMAGENET_SIDE, "--class-names", tmp_path / "names.txt", "--data", place / "people"]
    assert bring(place, tmp_path / "own", *flags) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1 and not (tmp_path / "own").exists()
