"""A classifier of somebody else's is attacked as what it is, or not at all."""

import json

import pytest
import torch
import torchvision
from foreign_classifier import IMAGENET_MEAN, IMAGENET_STD, PEOPLE, imagenet_images
from tiny import write_tiny

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.trial import inversion_stages, run_trial, trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep
from smoothsweep.tasks.training import load_classifier

ALPHABETICAL = sorted(PEOPLE)
BY_SIZE = sorted(PEOPLE, key=PEOPLE.get, reverse=True)
IMAGENET = ["--mean", *map(str, IMAGENET_MEAN), "--std", *map(str, IMAGENET_STD)]


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
    assert bring(place, tmp_path / "own", *IMAGENET, *named(place, "alphabetical")) == 0
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
    "order": (("by_size", IMAGENET), "with alphabetical classes"),
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


def test_a_judge_under_a_wrong_card_ends_the_trial_before_the_attack(place, tmp_path):
    assert bring(place, tmp_path / "bad", *named(place, "alphabetical")) == 0
    store, trial, stages = stages_of(place, tmp_path, None, judges={"evaluator": {"imported": str(tmp_path / "bad")}})
    with pytest.raises(InputError, match="with ImageNet mean/std"):
        run_trial(trial, lambda stage: execute_with_inputs(store, stage))
    assert store.has(stages.target) and not store.has(stages.attack)


def test_own_data_give_the_class_order_and_the_accuracy_that_sweeps_expect(place, tmp_path, capsys):
    assert bring(place, tmp_path / "own", *IMAGENET, "--data", place / "people") == 0
    assert "classes: Ann, bob, ..." in capsys.readouterr().out
    card = json.loads((tmp_path / "own" / "target.json").read_text())
    assert card["class_names"] == ALPHABETICAL and card["test_acc"] > 0.95 and card["data"] == "labelled"
    store, _, stages = stages_of(place, tmp_path, tmp_path / "own", judges={})
    execute_with_inputs(store, stages.target)
    assert stages.target.config["stated_acc"] == card["test_acc"]


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
    flags = [*IMAGENET, "--class-names", tmp_path / "names.txt", "--data", place / "people"]
    assert bring(place, tmp_path / "own", *flags) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1 and not (tmp_path / "own").exists()
