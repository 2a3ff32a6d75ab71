"""Sweeps that cannot be, and extreme ones: `plan` and `run` refuse the same, in one line, before anything is done."""

import itertools
import json

import pytest
import torch
import yaml
from PIL import Image
from safetensors.torch import save_file

from smoothsweep.core.attacks.registry import ATTACKS, make_attack, save_network
from smoothsweep.core.defenses.registry import DEFENSES
from smoothsweep.core.errors import InputError, TrainingDiverged
from smoothsweep.orchestrator.cli import main
from smoothsweep.orchestrator.planning.plan import make_plan, refuse_impossible
from smoothsweep.orchestrator.planning.trial import trials_of
from smoothsweep.orchestrator.scheduling.execute import execute_with_inputs
from smoothsweep.orchestrator.store.opening import open_store
from smoothsweep.sweeps.load import load_sweep
from tests.core.attacks.examples import EXAMPLES as ATTACK_EXAMPLES
from tests.core.attacks.examples import example
from tests.core.defenses.examples import EXAMPLES, told
from tests.dear import but_dear
from tests.labelled_files import people
from tests.official_gans import networks_of
from tests.planned_cases import NETWORK
from tests.published_trees import facescrub
from tests.tiny import tiny_sweep, write_tiny


def refused(folder, capsys, path, words, *more):
    """Both commands refuse it in one line, and neither leaves a store."""
    for command in (["plan"], ["run", "--yes"]):
        assert main([command[0], str(path), "--store", str(folder / "store"), *command[1:], *more]) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert words in line and not (folder / "store").exists()


SET = {  # --set -> words of the line
    "attack.crop_scale=[0.9, 1.1]": "attack.crop_scale: expected a pair with 0 < first <= second <= 1",
    "attack.selection_crop_ratio=[1.2, 0.8]": "attack.selection_crop_ratio: expected a pair with 0 < first",
    "recipe.augmentation.crop_scale=[0.5, 2.0]": "crop_scale: expected a pair with 0 < first <= second <= 1",
    "recipe.image_size=16": "resnet_small: expected images of at least 32 pixels, got 16",
    "judges.evaluator.architecture=vit_b_16": "vit_b_16: expected images of 224 pixels, got 32",
    "attack.pool.seed=-1": "attack.pool.seed: expected a whole number of at least 0, got -1",
    "seeds=[9223372036854775808]": "expected a whole number of at most",
    "classes=[4]": "classes: expected labels below 4, got 4",
    "classes=[1];attack.selected=1": "judges.knowledge: expected at least 2 reconstructions",
    "data.identities=1001;judges.evaluator={architecture: inception_v3}": "at most 1000 classes",
    "data.samples_per_class=99": "samples_per_class",
    "prior.components=60": "expected fewer than the 60 public images",
    "attack={kind: if_gmi}": "prior: expected a StyleGAN2, whose feature maps this attack moves, got 'eigenfac",
    "attack={kind: if_gmi};prior=null": "prior: expected what this attack decodes its latents with, got non",
    "attack={kind: if_gmi};prior={kind: shipped};public=null": (
        "attack.stage_steps: expected at most 5 stages, as many as a prior of 64 pixels has blocks, got 8"
    ),
    "resources={attack_compile: true, attack_cuda_graphs: true}": "expected at most one of them, got both",
}


@pytest.mark.parametrize("overrides", SET)
def test_impossible_settings(tmp_path, capsys, overrides):
    more = [word for override in overrides.split(";") for word in ("--set", override)]
    refused(tmp_path, capsys, write_tiny(tmp_path), SET[overrides], *more)


CARD = {"architecture": "resnet_small", "num_classes": 7, "image_size": 32, "transform_input": False}
ALONE = {"attack": None, "prior": None, "public": None}
MAPPED = {**ALONE, "judges": {"features": {"perplexity": 500}}}


def swapped(role, trial):
    return lambda folder: {"attack": {**tiny_sweep()["attack"], role: {"trial": trial}}}


def brought_in(folder):
    (folder / "brought").mkdir()
    (folder / "brought" / "target.json").write_text(json.dumps({**CARD, "data": None, "defense": None}))
    other = {"trial": {"recipe": {"imported": str(folder / "brought")}}}
    return {"attack": {**tiny_sweep()["attack"], "sampling_target": other}, "grid": {}, "baseline": {}}


def poisoned(**poison):
    recipe = {**tiny_sweep()["recipe"], "poison": {"kind": "badnets", **poison}}
    return lambda _: {"recipe": recipe, **ALONE, "judges": {}}


def own(folder):
    return {**MAPPED, "data": {"kind": "labelled", "path": str(people(folder / "people.parquet")), "size": 32}}


def published(folder):
    place = facescrub(folder / "facescrub", size=32)
    return {**MAPPED, "data": {"kind": "facescrub", "path": str(place), "classes": 5}}


INSIDE = {
    "a target of another input size": (
        swapped("selection_target", {"recipe.image_size": 48}),
        "attack.selection_target.trial: expected inputs of 32 pixels, as the attacked target has, got 48",
    ),
    "a target of other people": (
        swapped("selection_target", {"data.identities": 5}),
        "attack.selection_target.trial: expected 4 classes, as the attacked target has, got 5",
    ),
    "a target of as many other people": (
        swapped("sampling_target", {"data.seed": 8}),
        "attack.sampling_target.trial: expected the people of the attacked target, data.seed 0, got 8",
    ),
    "a target brought in with other classes": (
        brought_in,
        "attack.sampling_target.trial: expected 4 classes, as the attacked target has, got 7",
    ),
    "a perplexity of more than there are drawn people's pictures": (
        lambda _: MAPPED,
        "perplexity: expected less than the 32 training images to map, got 500",
    ),
    "of one's own": (own, "training images to map, got 500"),
    "of a published set's": (published, "perplexity: expected less than the 39 training images to map"),
    "no image poisoned": (poisoned(share=0), "recipe.poison.share: expected a number above 0, got 0"),
    "all images poisoned": (poisoned(share=1), "recipe.poison.share: expected a number below 1, got 1"),
    "a share that is no number": (poisoned(share=float("nan")), "recipe.poison.share: expected"),
    "a trigger larger than the image": (poisoned(size=33), "poison.size: expected at most the image's 32 pixels, got"),
    "a trigger that leads to nobody": (poisoned(target=4), "recipe.poison.target: expected a class below 4, got 4"),
}


@pytest.mark.parametrize("case", INSIDE)
def test_swapped_targets_maps_and_backdoors(tmp_path, capsys, case):
    changes, words = INSIDE[case]
    raw = {key: value for key, value in tiny_sweep(**changes(tmp_path)).items() if value is not None or key == "attack"}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(raw, sort_keys=False))
    refused(tmp_path, capsys, tmp_path / "s.yaml", words)


GAN = {"batch_size": 8}
CONDITIONAL = {"attack": {"kind": "plg_mi", "gan": {"imported": "HERE/plg_gan"}}, "public": None}  # of seven people
KNOWING = {"imported": "HERE/specific_gan"}  # likewise
PEOPLE = {"kind": "labelled", "path": "HERE/people", "size": 32}  # two, and only the folder says so
ANSWERS = {"logits": "gradients", "labels": "labels"}  # what a program says -> the most that it gives
SMALL_STUDENT = {"architectures": ["resnet_small"], "pretrained": False, "batch_size": 8}
LOW_RESOLUTION = {
    "fewer public images than a class is labelled with": (
        {"attack": {"kind": "plg_mi", "top_n": 61}},
        "attack.top_n: expected at most the 60 public images, got 61",
    ),
    "less public images than a batch": (
        {"attack": {"kind": "gmi", "gan": {"batch_size": 61}}},
        "public: expected at least attack.gan.batch_size (61) images, got 60",
    ),
    "a student of no known architecture": (
        {"attack": {"kind": "lomma_gmi", "gan": GAN, "students": {"architectures": ["efficientnet_b9"]}}},
        "attack.students.architectures: expected one of",
    ),
    "a student that does not take the target's images": (
        {"attack": {"kind": "lomma_ked", "gan": GAN, "students": {"architectures": ["vit_b_16"], "batch_size": 8}}},
        "vit_b_16: expected images of 224 pixels, got 32",
    ),
    "an attack of 64 pixels on a target of 224": (
        {"attack": {"kind": "ked", "gan": GAN}, "recipe": {"image_size": 224}},
        "recipe.image_size: expected 32 or 64 pixels with this attack, got 224",
    ),
    "a conditional GAN for a target of 224": (
        {"attack": {"kind": "plg_mi", "top_n": 8}, "recipe": {"image_size": 224}},
        "attack plg_mi: side of the target's input: expected 64 pixels, or 16 or 32, got 224",
    ),
    "a generator of its own for a target of 224": (
        {"attack": {"kind": "brep_mi", "generator": "general_gan", "gan": GAN}, "recipe": {"image_size": 224}},
        "recipe.image_size: expected 32 or 64 pixels with generator general_gan, got 224",
    ),
    "a conditional GAN of another number of classes": (CONDITIONAL, "generator: expected the target's 4 classes, got"),
    "where only the pictures say how many people there are": (
        {**CONDITIONAL, "data": PEOPLE},
        "plg_gan: generator: expected the target's 2 classes, got 7",
    ),
    "of a published set with the paper's number": (
        {**CONDITIONAL, "data": {"kind": "celeba64", "path": "HERE"}},
        "plg_gan: generator: expected the target's 1000 classes, got 7",
    ),
    "of a target that was brought in": (
        {**CONDITIONAL, "recipe": {"imported": "HERE/logits"}},
        "plg_gan: generator: expected the target's 4 classes, got 7",
    ),
    "a discriminator that knows the classes of another target": (
        {"attack": {"kind": "ked", "gan": KNOWING}, "public": None},
        "specific_gan: discriminator: expected the target's 4 classes, got 7",
    ),
    "the same under LOMMA": (
        {"attack": {"kind": "lomma_ked", "form": "L_aug", "gan": KNOWING, "students": SMALL_STUDENT}, "data": PEOPLE},
        "specific_gan: discriminator: expected the target's 2 classes, got 7",
    ),
    "a target without the features that LOMMA pulls": (
        {"attack": {"kind": "lomma_gmi", "gan": GAN, "form": "L_logit"}, "recipe": {"imported": "HERE/logits"}},
        "attack.kind: expected an attack on answers alone, since a TorchScript program shows no layers",
    ),
    "a target that says labels alone under an attack that needs gradients": (
        {"attack": {"kind": "gmi", "gan": GAN}, "recipe": {"imported": "HERE/labels"}},
        "attack.kind: expected an attack on labels, which is all that a TorchScript program gives here",
    ),
    "a defense that leaves answers alone under an attack that needs gradients": (
        {"attack": {"kind": "plg_mi", "top_n": 8}, "recipe": {"defense": {"kind": "ssd", "eps": 0.1}}},
        "attack: expected nothing that sees more than scores of a target with defense ssd, got one that sees",
    ),
    "labels alone for an attack that needs gradients": (
        {"attack": {"kind": "gmi", "gan": GAN, "access": "labels"}},
        "attack.access: expected one of the keys ",
    ),
    "a training of a generator that the prior is": (
        {"attack": {"kind": "rlb_mi", "gan": GAN}, "prior": {"kind": "eigenfaces", "components": 8}},
        "attack.gan: expected no value with generator prior",
    ),
    "public pictures whose list is not there": (
        {"attack": {"kind": "gmi", "gan": GAN}, "public": {"kind": "celeba64"}},
        "public.path",
    ),
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """GANs of seven people, pictures of two, and programs that tell four apart."""
    root = tmp_path_factory.mktemp("here")
    for part in ("plg_gan", "specific_gan"):
        (root / part).mkdir()
        for name, network in networks_of(part, classes=7).items():
            save_network(network, root / part, name)
    for person in ("ada", "bob"):
        (root / "people" / person).mkdir(parents=True)
        for shade in range(4):
            Image.new("RGB", (32, 32), (60 * shade, 10, len(person))).save(root / "people" / person / f"{shade}.png")
    for answers, access in ANSWERS.items():
        (root / answers).mkdir()
        program = {"version": 3, "architecture": "torchscript", "num_classes": 4, "data": None, "defense": None}
        card = {**CARD, **program, "outside": {"answers": answers, "access": access}}
        (root / answers / "target.json").write_text(json.dumps(card))
        (root / answers / "program.torchscript").touch()
    return root


@pytest.mark.parametrize("case", LOW_RESOLUTION)
def test_low_resolution_attacks(tmp_path, capsys, here, case):
    changes, words = LOW_RESOLUTION[case]
    raw = tiny_sweep(prior=None, judges={}, grid={}, baseline={})
    for key, value in changes.items():
        raw[key] = {**raw[key], **value} if key == "recipe" and "imported" not in value else value
    path, raw = tmp_path / "s.yaml", {key: value for key, value in raw.items() if value is not None}
    path.write_text(yaml.safe_dump(raw, sort_keys=False).replace("HERE", str(here)))
    refused(tmp_path, capsys, path, words)


@pytest.mark.parametrize("content", ["nonsense", "empty", "another network"])
def test_a_judges_weights_file_is_read_before_any_work(tmp_path, capsys, content):
    file = tmp_path / "weights.safetensors"
    file.write_bytes(b"nonsense" if content == "nonsense" else b"")
    if content == "another network":
        save_file({"a": torch.zeros(1)}, file)
    for judge, words in (
        (f"embedder={{name: mobilefacenet_a, weights: {file}}}", "image embeddings: embedder mobilefacenet_a: "),
        (f"fidelity={{weights: {file}, neighbours: 1}}", "image embeddings: "),
    ):
        refused(tmp_path, capsys, write_tiny(tmp_path), words, "--set", f"judges.{judge}")


STYLEGAN = {**NETWORK, "mapping_layers": 1, "mbstd_group": 4}
PRIORS = {
    "weights that are none": ("stylegan2", "ppa", "expected a safetensors file"),
    "no StyleGAN": ("eigenfaces", "if_gmi", "prior: expected a StyleGAN2, whose feature maps this attack moves, got"),
    "too few blocks": ("stylegan2", "if_gmi", "expected at most 4 stages, as many as a prior of 32 pixels has blocks"),
}


@pytest.mark.parametrize("case", PRIORS)
def test_a_priors_folder_is_opened_before_any_work(tmp_path, capsys, case):
    kind, attack, words = PRIORS[case]
    config = {"resolution": 32, "components": 4} if kind == "eigenfaces" else STYLEGAN
    (tmp_path / "prior.json").write_text(json.dumps({"kind": kind, "config": config}))
    save_file({"a": torch.zeros(1)}, tmp_path / "weights.safetensors")
    if attack == "ppa":
        (tmp_path / "weights.safetensors").write_bytes(b"nonsense")
    more = [] if attack == "ppa" else ["--set", f"attack={{kind: {attack}}}"]
    prior = ["--set", f"prior={{kind: folder, path: {tmp_path}}}", "--set", "public=null"]
    refused(tmp_path, capsys, write_tiny(tmp_path), words, *more, *prior)


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
