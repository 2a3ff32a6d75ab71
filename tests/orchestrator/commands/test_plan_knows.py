"""What `plan` accepts `run` does not refuse: extreme settings of every family, planned and then run at tiny size."""

import itertools

import pytest
from PIL import Image
from tiny import tiny_sweep, write_tiny

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.errors import InputError, TrainingDiverged
from smoothsweep.orchestrator.planning.plan import make_plan, refuse_impossible
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep
from tests.core.attacks.examples import EXAMPLES as ATTACK_EXAMPLES
from tests.core.attacks.examples import example
from tests.core.defenses.examples import EXAMPLES, told
from tests.dear import but_dear
from tests.orchestrator.commands.test_refused_sweeps import refused

SMALL = {"kind": "synthetic", "test_per_class": 1, "size": 16}


def without_attack(**changes):
    """The tiny sweep's target alone, trained for an epoch."""
    recipe = {**tiny_sweep()["recipe"], "epochs": 1, **changes.pop("recipe", {})}
    whole = {"attack": None, "prior": None, "public": None, "judges": {}, "grid": {}, "baseline": {}, **changes}
    return {
        **whole,
        "recipe": recipe,
        "data": {**SMALL, "identities": 4, "train_per_class": 4, **whole.get("data", {})},
    }


def planned(folder, sweep):
    """The plan, or the InputError with which it is refused."""
    store = open_store(str(folder / "store"))
    try:
        plan = make_plan(trials_of(load_sweep(write_tiny(folder, **sweep))), store)
        refuse_impossible(plan)
    except InputError as error:
        return None, str(error)
    store.open_for_writing()
    return (plan, store), None


def agree(folder, sweep):
    """Plan it and, where that is accepted, run every stage: it must not be refused then. Whether it was accepted."""
    found, refusal = planned(folder, sweep)
    if found is None:
        assert "\n" not in refusal and ("expected" in refusal)
        return False
    plan, store = found
    for stage in plan.stages:
        try:
            execute_with_inputs(store, stage)
        except TrainingDiverged:
            return True  # which no plan can know
    return True


COUNTS = [(2, 1, 2), (3, 2, 64), (5, 4, 16)]


@pytest.mark.parametrize("kind", sorted(DEFENSES))
def test_a_defense_is_refused_when_planned_or_trains(kind, tmp_path):
    """With one image per class and with several, with batches that hold all images and others that hold few."""
    seen = []
    for number, ((identities, each, batch), more) in enumerate(
        itertools.product(COUNTS, [{}, *told(kind, "COUNTED", [])])
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        recipe = {"batch_size": batch, "defense": {"kind": kind, **EXAMPLES[kind], **more}}
        data = {"identities": identities, "train_per_class": each}
        seen.append(agree(folder, without_attack(recipe=recipe, data=data)))
    assert any(seen), "some of these can be trained"


REFUSED = {  # what is wrong -> the sweep, words of the line
    "two classes": ({"data": {"identities": 2}, "judges": {"robustness": {}}}, "at least 3 classes, got 2"),
    "few test images": ({"judges": {"robustness": {"images": 5}}}, "images: expected at most the 4 test images, got 5"),
    "no poison": ({"recipe": {"poison": {"kind": "badnets", "share": 0.01, "size": 3}}}, "share: expected some of"),
    "all poison": ({"recipe": {"poison": {"kind": "badnets", "share": 0.99, "size": 3}}}, "training images, got 16"),
    "large trigger": (
        {"recipe": {"poison": {"kind": "badnets", "size": 20, "placed": "before_augmentation"}}},
        "at most the image",
    ),
    "dp batch": ({"recipe": {"defense": {"kind": "dp_sgd", "noise": 1.0}, "batch_size": 17}}, "at most the 16 images"),
    "ssd": (
        {"recipe": {"defense": {"kind": "ssd", "eps": 1.0}}, "data": {"train_per_class": 1}},
        "leave an image of class",
    ),
    "bido": (
        {"recipe": {"defense": {"kind": "bido", "lambda_input": 0.1, "lambda_label": 0.1}, "batch_size": 64}},
        "at least 16 classes",
    ),
    "terabytes": ({"data": {"identities": 10**9, "train_per_class": 10**6}}, "at most 1 TiB in all"),
    "rate": ({"recipe": {"lr": 1e300}}, "lr: expected a number of at most 3.4e+38 either way"),
    "rate of an integer": ({"recipe": {"lr": 10**60}}, "expected a whole number"),
    "decay": ({"recipe": {"weight_decay": 1e39}}, "weight_decay: expected a number of at most 3.4e+38"),
    "NaN faces": ({"data": {"spread": 1e300}}, "data.spread: expected a number of at most 10"),
    "alpha": ({"recipe": {"defense": {"alpha": -1e300}}}, "alpha: expected at least -3.4e+38"),
    "a defense's number": ({"recipe": {"defense": {"kind": "focal", "gamma": 1e39}}}, "gamma: expected a number of"),
    "a wide layer": ({"recipe": {"defense": {"kind": "loft", "rank": 10**9}}}, "rank: expected"),
}


LATENTS = {
    "cma_es": (
        {"attack": {"kind": "cma_es", "pool": {"size": 20}}, "prior": {"kind": "eigenfaces", "components": 1}},
        "prior: expected latents of at least 2 directions for cma_es, got 1",
    ),
    "pool": ({"attack": {"pool": {"size": 10**9}}}, "attack.pool.size: expected a whole number of at most 10000000"),
    "public": ({"public": {"kind": "synthetic", "identities": 10**9, "per_identity": 1000}}, "at most 1 TiB in all"),
    "step": ({"attack": {**tiny_sweep()["attack"], "lr": 1e300}}, "lr: expected a number of at most 3.4e+38"),
}


@pytest.mark.parametrize("wrong", [*REFUSED, *LATENTS])
def test_both_commands_refuse_it_in_one_line_and_leave_nothing(wrong, tmp_path, capsys):
    changes, words = {**REFUSED, **LATENTS}[wrong]
    attacked = {"judges": {"embedder": {"name": "synthetic"}}, "grid": {}, "baseline": {}, **changes}
    sweep = write_tiny(tmp_path, **(attacked if wrong in LATENTS else without_attack(**changes)))
    refused(tmp_path, capsys, sweep, words)


def under_poison(seeds, each, share):
    """Images of two classes, one of which a poison labels anew: which one follows from the seed."""
    recipe = {"defense": {"kind": "ssd", "eps": 1.0}, "poison": {"kind": "badnets", "share": share, "size": 3}}
    data = {"identities": 2, "train_per_class": each}
    return without_attack(recipe={**recipe, "batch_size": 4}, data=data, seeds=seeds)


def refusal_of_the_work(folder, sweep):
    """The line with which the training is refused where nobody has planned it; None for none."""
    store = open_store(str(folder / "unplanned"))
    store.open_for_writing()
    [trial] = trials_of(load_sweep(write_tiny(folder, **sweep)), store)
    try:
        for stage in trial.stages:
            execute_with_inputs(store, stage)
    except InputError as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("each", "share", "words"),
    [(2, 0.25, "expected to leave an image of class 1 to train on"), (3, 0.2, "expected a clean image of every class")],
)
def test_a_poison_that_leaves_a_defense_too_little_is_seen_when_planned(each, share, words, tmp_path, capsys):
    """The images that the defense keeps back are those of the seed, and so are those that the poison labels anew."""
    lines = {}
    for seed in range(4):
        (folder := tmp_path / str(seed)).mkdir()
        sweep = under_poison([seed], each, share)
        lines[seed] = planned(folder, sweep)[1]
        line = refusal_of_the_work(folder, sweep)
        assert lines[seed] == (line and f"target: {line}")
    fine = min(seed for seed, line in lines.items() if line is None)
    late = min(seed for seed, line in lines.items() if line and words in line)
    sweep = write_tiny(tmp_path, **under_poison([fine, late], each, share))
    refused(tmp_path, capsys, sweep, words)


def test_a_folder_of_too_few_public_images_is_seen_when_planned(tmp_path, capsys):
    for number in range(8):
        (place := tmp_path / "public").mkdir(exist_ok=True)
        Image.new("RGB", (32, 32), (30 * number, 90, 20)).save(place / f"{number}.png")
    judges = {"embedder": {"name": "synthetic"}}
    for components, limit, most in ((8, None, 8), (6, 5, 5)):
        public = {"kind": "unlabelled", "path": str(place), "size": 32, **({"limit": limit} if limit else {})}
        prior = {"kind": "eigenfaces", "components": components}
        sweep = write_tiny(tmp_path, judges=judges, grid={}, baseline={}, public=public, prior=prior)
        words = f"prior.components: expected fewer than the {most} public images, got {components}"
        refused(tmp_path, capsys, sweep, words)


ROBUSTNESS = {"steps": 1, "generations": 1, "population": 1, "strong_steps": 1}


@pytest.mark.parametrize(
    ("judges", "identities"),
    [
        ({"robustness": {**ROBUSTNESS, "images": 1}}, 3),
        ({"robustness": {**ROBUSTNESS, "images": 4}}, 4),
        ({"features": {"perplexity": 2.0}}, 3),
    ],
)
def test_a_judge_of_the_target_is_refused_when_planned_or_measures(judges, identities, tmp_path):
    agree(tmp_path, without_attack(judges=judges, data={"identities": identities}))


@pytest.mark.parametrize("share", [0.03, 0.5, 0.97])
@pytest.mark.parametrize("placed", ["after_augmentation", "before_augmentation"])
def test_a_poison_is_refused_when_planned_or_planted(share, placed, tmp_path):
    poison = {"kind": "badnets", "size": 4, "share": share, "placed": placed}
    accepted = agree(tmp_path, without_attack(recipe={"poison": poison}))
    assert accepted == (0 < round(16 * share) < 16)


DEAR = [kind for kind in ATTACK_EXAMPLES if getattr(example(kind), "DEAR", False)]


@pytest.mark.parametrize("kind", but_dear(sorted(ATTACK_EXAMPLES), DEAR))
def test_an_attack_is_refused_when_planned_or_ends(kind, tmp_path):
    """On two people with one image each, from latents of a single direction."""
    judges, recipe = {"embedder": {"name": "synthetic"}}, {**tiny_sweep()["recipe"], "epochs": 1}
    data = {**SMALL, "identities": 2, "train_per_class": 1}
    attack = {"kind": kind, **(example(kind).KEPT or ATTACK_EXAMPLES[kind])}
    reads = make_attack(**attack).reads
    prior = {"kind": "eigenfaces", "components": 1} if "prior" in reads else None
    beside = {"kind": "ppa", **ATTACK_EXAMPLES["ppa"]}  # a control alone is no sweep
    grid = {"attack": [attack, beside]} if ATTACKS[kind].control else {}
    sweep = {"data": data, "attack": attack, "prior": prior, "recipe": recipe, "judges": judges}
    if not {"prior", "public"} & reads:
        sweep["public"] = None
    accepted = agree(tmp_path, {**sweep, "grid": grid, "baseline": {}})
    assert accepted == getattr(example(kind), "IN_ONE_DIRECTION", True)
