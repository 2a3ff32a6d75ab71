"""What cannot be of swapped targets, features, backdoors and user studies: one line, exit code 2, nothing written."""

import json

import pytest
import yaml
from labelled_files import people
from published_trees import facescrub
from study_answers import answers_file, choosing, made_sweep
from tiny import tiny_sweep

from smoothsweep.orchestrator.cli import main

CARD = {
    "architecture": "resnet_small",
    "num_classes": 7,
    "image_size": 32,
    "transform_input": False,
    "data": None,
    "defense": None,
}
POISON = {"kind": "badnets"}
TARGET_ALONE = {"attack": None, "prior": None, "public": None, "judges": {"features": {"perplexity": 500}}}


def swapped(role, trial):
    return lambda folder: {"attack": {**tiny_sweep()["attack"], role: {"trial": trial}}}


def brought_in(folder):
    (folder / "brought").mkdir()
    (folder / "brought" / "target.json").write_text(json.dumps(CARD))
    other = {"trial": {"recipe": {"imported": str(folder / "brought")}}}
    return {"attack": {**tiny_sweep()["attack"], "sampling_target": other}, "grid": {}, "baseline": {}}


def poisoned(**poison):
    recipe = {**tiny_sweep()["recipe"], "poison": {**POISON, **poison}}
    return lambda _: {"recipe": recipe, "attack": None, "prior": None, "public": None, "judges": {}}


def mapped(data):
    return lambda folder: {**TARGET_ALONE, "data": data(folder)}


def own(folder):
    return {"kind": "labelled", "path": str(people(folder / "people.parquet")), "size": 32}


def published(folder):
    return {"kind": "facescrub", "path": str(facescrub(folder / "facescrub", size=32)), "classes": 5}


WRONG = {
    "a target of another input size selects": (
        swapped("selection_target", {"recipe.image_size": 48}),
        "attack.selection_target.trial: expected inputs of 32 pixels, as the attacked target has, got 48",
    ),
    "a target of another input size samples": (
        swapped("sampling_target", {"recipe.image_size": 48}),
        "attack.sampling_target.trial: expected inputs of 32 pixels, as the attacked target has, got 48",
    ),
    "a target of other people": (
        swapped("selection_target", {"data.identities": 5}),
        "attack.selection_target.trial: expected 4 classes, as the attacked target has, got 5",
    ),
    "a target of as many other people": (
        swapped("selection_target", {"data.seed": 8}),
        "attack.selection_target.trial: expected the people of the attacked target, data.seed 0, got 8",
    ),
    "a target brought in with other classes": (
        brought_in,
        "attack.sampling_target.trial: expected 4 classes, as the attacked target has, got 7",
    ),
    "a perplexity of more than there are drawn people's pictures": (
        lambda _: TARGET_ALONE,
        "perplexity: expected less than the 32 training images to map, got 500",
    ),
    "of one's own": (mapped(own), "training images to map, got 500"),
    "of a published set's": (mapped(published), "perplexity: expected less than the 39 training images to map"),
    "no image poisoned": (poisoned(share=0), "recipe.poison.share: expected a number above 0, got 0"),
    "all images poisoned": (poisoned(share=1), "recipe.poison.share: expected a number below 1, got 1"),
    "less than none poisoned": (poisoned(share=-0.1), "recipe.poison.share: expected a number above 0, got -0.1"),
    "a share that is no number": (poisoned(share=float("nan")), "recipe.poison.share: expected"),
    "a trigger larger than the image": (
        poisoned(size=33),
        "poison.size: expected at most the image's 32 pixels, got 33",
    ),
    "a trigger that leads to nobody": (poisoned(target=4), "recipe.poison.target: expected a class below 4, got 4"),
}


def refused(capsys, *arguments):
    """The one line of exit code 2."""
    assert main([str(one) for one in arguments]) == 2
    told = capsys.readouterr()
    [line] = told.err.strip().splitlines()
    assert told.out == ""
    return line


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize("case", WRONG)
def test_a_sweep_that_cannot_be_is_one_line_and_nothing_is_written(tmp_path, capsys, case, command):
    changes, said = WRONG[case]
    raw = {key: value for key, value in tiny_sweep(**changes(tmp_path)).items() if value is not None or key == "attack"}
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(raw, sort_keys=False))
    assert said in refused(capsys, command, path, "--store", tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_answers_to_another_study_are_one_line_and_nothing_is_written(tmp_path, capsys):
    """Two pages from one sweep, whose pictures are alike and stand in another order."""
    sweep, store = made_sweep(tmp_path)
    for seed in (1, 2):
        place = ("--people", 2, "--seed", seed, "--out", tmp_path / f"{seed}")
        command = ("study", "build", sweep, "--store", store, *place)
        assert main([str(one) for one in command]) == 0
    capsys.readouterr()
    keys = [json.loads((tmp_path / f"{seed}" / "study.json").read_text()) for seed in (1, 2)]
    answers = answers_file(tmp_path / "answers.json", keys[0], choosing(keys[0], 0))
    before = sorted(tmp_path.rglob("*"))
    line = refused(capsys, "study", "read", answers, "--study", tmp_path / "2" / "study.json")
    assert f"answers.json: expected answers to the study {keys[1]['digest'][:12]}, got those to" in line
    assert sorted(tmp_path.rglob("*")) == before
