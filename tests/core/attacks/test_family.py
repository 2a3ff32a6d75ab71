"""Every attack of the table: what it refuses, what it finds, what it sees of the target, and what it is counted for."""

import dataclasses
import subprocess
import sys

import pytest
import torch

from core.attacks.access import ACCESS_LEVELS
from core.attacks.execution import Execution
from core.attacks.given import Given
from core.attacks.ppa.attack import Pool
from core.attacks.ppa.pool_parts import make_candidates
from core.attacks.registry import ATTACKS, PARTS, make_attack
from core.attacks.view import view_of
from core.data.synthetic import synthetic_faces
from core.data.transforms import to_unit
from core.devices import ExecutionConfig
from core.errors import InputError
from core.models.classifiers import build_classifier
from core.models.recipe import TrainingRecipe
from core.priors.eigenfaces import fit_eigenfaces
from core.training.classifier import train_classifier
from tests.nonsense import nonsense_for, numbers_of

PEOPLE, SIZE = 4, 32
POOL = {"size": 40, "truncation_psi": 1.0, "truncation_cutoff": None}
PLG_GAN = {"steps": 30, "batch_size": 12, "width": 8, "z_dim": 8, "lr": 0.006, "inversion_weight": 1.0,
           "critic_steps": 1}  # fmt: skip
LOW_GAN = {"width": 8, "epochs": 10, "batch_size": 8, "critic_steps": 1, "lr": 0.004, "z_dim": 32}
LOW_RESOLUTION = {"gan": LOW_GAN, "steps": 16, "selected": 3, "reference_batch": 2}
DISTRIBUTION = {"gan": {**LOW_GAN, "epochs": 7, "lr": 0.005}, "steps": 24, "lr": 0.1, "start_log_variance": -3.0}
STUDENTS = {"architectures": ["vgg_small"], "pretrained": False, "epochs": 2, "batch_size": 16}
EXAMPLES = {
    "ppa": {"pool": POOL, "candidates": 8, "steps": 20, "lr": 0.05, "selected": 4, "selection_repeats": 6},
    "plg_mi": {"top_n": 8, "gan": PLG_GAN, "steps": 8, "selected": 4},
    "rlb_mi": {"agent": "textbook", "episodes": 480, "minibatch": 32, "hidden": 32, "lr": 0.01, "at_once": 8,
               "selected": 2},
    "brep_mi": {"selected": 2, "starts": {"batch": 64, "max_batches": 10}, "probes": 16, "patience": 25,
                "max_passes": 80},
    "gmi": LOW_RESOLUTION,
    "ked": {**LOW_RESOLUTION, **DISTRIBUTION},
    "lomma_gmi": {**LOW_RESOLUTION, "students": STUDENTS},
    "lomma_ked": {**LOW_RESOLUTION, **DISTRIBUTION, "students": STUDENTS},
    "selection_only": {"pool": POOL, "selected": 4},
    "random_latents": {"selected": 4, "truncation_psi": 1.0, "truncation_cutoff": None},
}  # fmt: skip
WRONG = [
    ("ppa", {"stepz": 3}, "does not read 'stepz'"),
    ("ppa", {"steps": 0}, "attack.steps: expected a whole number of at least 1, got 0"),
    ("ppa", {"candidates": 5, "selected": 6}, r"attack.selected: expected at most candidates \(5\), got 6"),
    ("ppa", {"select": {"kind": "by_eye"}}, "attack.select.kind: expected one of augmented_confidence"),
    ("ppa", {"select": {"kind": "top_confidence"}, "selection_repeats": 3}, "which does not read it"),
    ("ppa", {"optimise": {"kind": "none"}, "lr": 0.1}, "attack.lr: expected no value with optimise none"),
    ("ppa", {"loss": "hinge"}, "attack.loss: expected one of poincare, cross_entropy, max_margin, got 'hinge'"),
    ("ppa", {"pool": {"size": 0}}, "attack.pool.size"),
    ("ppa", {"seed": 2**63}, "attack.seed"),
    ("ppa", {"precision": "fp8"}, "attack.precision"),
    ("plg_mi", {"top_n": 0}, "attack.top_n: expected a whole number of at least 1, got 0"),
    ("plg_mi", {"loss": "hinge"}, "attack.loss: expected one of poincare, cross_entropy, max_margin, got 'hinge'"),
    ("plg_mi", {"steps": 0}, "attack.steps"),
    ("plg_mi", {"lr": 0.0}, "attack.lr"),
    ("plg_mi", {"gan": {"batch_size": 1}}, "attack.gan.batch_size: expected a whole number of at least 2, got 1"),
    ("plg_mi", {"gan": {"loss": "hinge"}}, "attack.gan.loss"),
    ("plg_mi", {"gan": {"betas": [0.0, 1.0]}}, r"attack.gan.betas: expected a number in \[0, 1\), got 1.0"),
    ("plg_mi", {"gan": {"steps": 0}}, "attack.gan.steps"),
    ("plg_mi", {"gan": {"critic_steps": 0}}, "attack.gan.critic_steps"),
    ("plg_mi", {"gan": {"lr": -1.0}}, "attack.gan.lr"),
    ("plg_mi", {"gan": {"inversion_weight": -0.1}}, "attack.gan.inversion_weight"),
    ("plg_mi", {"gan": {"width": 0}}, "attack.gan.width"),
    ("plg_mi", {"gan": {"z_dim": 0}}, "attack.gan.z_dim"),
    ("plg_mi", {"gan": {"seed": -1}}, "attack.gan.seed"),
    ("rlb_mi", {"episodes": 256}, "attack.episodes: expected at least 257, or nothing is ever learnt, got 256"),
    ("rlb_mi", {"diversity": 1.0}, r"attack.diversity: expected a number in \[0, 1\), got 1.0"),
    ("rlb_mi", {"agent": "double"}, "attack.agent: expected one of official, textbook, got 'double'"),
    ("rlb_mi", {"logarithm": "log2"}, "attack.logarithm: expected one of official, floored"),
    ("rlb_mi", {"gamma": 0.9}, "attack.gamma: expected the default where steps is 1, got 0.9"),
    ("rlb_mi", {"at_once": 256}, "attack.at_once: expected fewer episodes than a minibatch has, got 256"),
    ("rlb_mi", {"selected": 300}, "attack.selected: expected at most 255, found before learning begins, got 300"),
    ("rlb_mi", {"truncation_psi": 0}, "attack.truncation_psi"),
    ("brep_mi", {"inside": 1.0}, r"attack.inside: expected a number in \[-1, 1\), got 1.0"),
    ("brep_mi", {"expansion": 1.0}, "attack.expansion: expected a finite number above 1, got 1.0"),
    ("brep_mi", {"max_passes": 0}, "attack.max_passes: expected a whole number of at least 1, got 0"),
    ("brep_mi", {"result": "best"}, "attack.result: expected one of last_expansion, end, robust, got 'best'"),
    ("brep_mi", {"robust_views": 8}, "attack.robust_views: expected the default where result is not robust, got 8"),
    ("brep_mi", {"starts": {"max_batches": 0}}, "attack.starts.max_batches"),
    ("gmi", {"momentum": 1.0}, r"attack.momentum: expected a number in \[0, 1\), got 1.0"),
    ("gmi", {"bound": 0.0}, "attack.bound"),
    ("gmi", {"restarts": 3}, "does not read 'restarts'"),
    ("gmi", {"gan": {"batch_size": 1}}, "attack.gan.batch_size: expected a whole number of at least 2, got 1"),
    ("gmi", {"gan": {"width": 0}}, "attack.gan.width"),
    ("gmi", {"gan": {"betas": [0.0, 1.0]}}, "attack.gan.betas"),
    ("ked", {"start_log_variance": 21.0}, "attack.start_log_variance"),
    ("ked", {"reference_batch": 0}, "attack.reference_batch: expected a whole number of at least 1, got 0"),
    ("lomma_gmi", {"form": "theirs"}, "attack.form: expected one of ours, L_logit, L_aug, baseline"),
    ("lomma_gmi", {"form": "L_aug", "feature_weight": 2.0}, "attack.feature_weight: expected no value with form L_aug"),
    ("lomma_gmi", {"form": "L_logit", "students": STUDENTS}, "attack.students: expected no value with form L_logit"),
    ("lomma_gmi", {"students": {"architectures": []}}, "attack.students.architectures: expected at least one"),
    ("lomma_ked", {"students": {"architectures": ["efficientnet_b9"]}},
     "attack.students.architectures: expected one of .*efficientnet_b2.*, got 'efficientnet_b9'"),
    ("lomma_ked", {"students": {"temperature": 0.0}}, "attack.students.temperature"),
    ("selection_only", {"selected": 41, "pool": POOL}, r"attack.selected: expected at most pool.size \(40\)"),
    ("selection_only", {"steps": 3}, "does not read 'steps'"),
    ("random_latents", {"truncation_psi": 0.0}, "attack.truncation_psi"),
    ("random_latents", {"readout": "mean"}, "attack.readout: expected none"),
    ("loki", {}, "attack.kind: expected one of ppa"),
]

EDGES = {
    "selected": ([0, -1, 10**9 + 1], [1]),
    "seed": ([-1, 2**63], [0, 2**63 - 1]),
    "loot_size": ([0, 15, 10**9 + 1], [16, None]),
    "candidates": ([0, -1, 10**9 + 1, 41], [4, 40]),
    "top_n": ([0, -1, 10**9 + 1], [1]),
    "steps": ([0, -1, 10**9 + 1], [1]),
    "lr": ([0, -0.1], [1e-9, 100.0]),
    "betas": ([(-0.1, 0.5), (0.5, 1.0), (1, 0.5), (0.5,), (0.1, 0.1, 0.1), ()], [(0, 0.999)]),
    "weight_decay": ([-0.1], [0, 0.1]),
    "lr_milestones": ([(0,), (20,), (-1,), (2, 20)], [(1, 19), ()]),
    "lr_gamma": ([0, -0.1], []),  # by itself it has no effect
    "batch_size": ([0, -1, 10**9 + 1], [1]),
    "discriminator_weight": ([-0.1], [0, 0.1]),
    "crop_scale": ([(0, 1), (0.5, 1.1), (0.9, 0.5), (0.5,)], [(0.5, 1), (1, 1)]),
    "crop_ratio": ([(0, 1), (1.2, 1), (1,)], [(0.5, 2), (1, 1)]),
    "selection_repeats": ([0, -1, 10**9 + 1], [1]),
    "selection_crop_scale": ([(0, 1), (0.5, 1.1), (0.9, 0.5), (0.5,)], [(0.5, 1), (1, 1)]),
    "selection_crop_ratio": ([(0, 1), (1.2, 1), (1,)], [(0.5, 2), (1, 1)]),
    "selection_hflip": ([-0.1, 1.1], [0, 1]),
    "selection_view_size": ([0, -1, 10**9 + 1], [1, None]),
    "truncation_psi": ([0, -0.5], [0.01, 2]),
    "truncation_cutoff": ([-1, 10**9 + 1], [0, 8, None]),
    "image_crop": ([0, -1, 10**9 + 1], [1, None]),
    "episodes": ([0, -1, 10**9 + 1, 32], [33]),
    "at_once": ([0, -1, 10**9 + 1, 32], [1]),
    "minibatch": ([0, -1, 10**9 + 1], [16, 479]),
    "hidden": ([0, -1, 10**9 + 1], [1]),
    "diversity": ([-0.1, 1], [0, 0.99]),
    "gamma": ([-0.1, 1.1], []),  # by itself it has no effect
    "tau": ([-0.1, 1.1], []),  # nor has this
    "clamp": ([0, -1], [0.01]),
    "probes": ([0, -1, 10**9 + 1], [1]),
    "inside": ([-1.1, 1], [-1, 0.99]),
    "radius": ([0, -1], [0.01]),
    "expansion": ([0.9, 1], [1.01]),
    "patience": ([0, -1, 10**9 + 1], [1]),
    "max_passes": ([0, -1, 10**9 + 1], [1]),
    "robust_views": ([0, -1, 10**9 + 1], []),  # by itself it has no effect
    "identity_weight": ([-0.1], [0, 100]),
    "reference_batch": ([0, -1, 10**9 + 1], [1]),
    "momentum": ([-0.1, 1], [0, 0.999]),
    "bound": ([0, -1], [1e-3]),
    "start_log_variance": ([-20.1, 20.1], [-20, 20]),
    "feature_weight": ([-0.1], [0, 2]),
    "pool.size": ([0, 3, 10**9 + 1], [8]),
    "pool.seed": ([-1, 2**63], [0, 2**63 - 1]),
    "pool.truncation_psi": ([0, -0.5], [0.01, 2]),
    "pool.truncation_cutoff": ([-1, 10**9 + 1], [0, 8, None]),
    "pool.crop": ([0, -1, 10**9 + 1], [1, None]),
}
"""Field -> what its type has and it does not take, up to the bound; what it takes, down to it."""


def classifier(architecture, data, seed):
    model = build_classifier(architecture, PEOPLE, pretrained=False, protocol="clean", seed=seed)
    recipe = TrainingRecipe(architecture=architecture, image_size=SIZE, epochs=12, batch_size=16)
    train_classifier(model, data, recipe, seed=seed, device="cpu")
    return model.eval().requires_grad_(False)


@pytest.fixture(scope="module")
def faces():
    return synthetic_faces(identities=PEOPLE, per_identity=16, size=SIZE, spread=0.6, seed=5, population="private")


@pytest.fixture(scope="module")
def target(faces):
    return classifier("resnet_small", faces, seed=1)


@pytest.fixture(scope="module")
def judge(faces):
    """Another network, that no attack sees."""
    return classifier("vgg_small", faces, seed=2)


@pytest.fixture(scope="module")
def public():
    return synthetic_faces(identities=120, per_identity=1, size=SIZE, spread=0.6, seed=5, population="public").images


@pytest.fixture(scope="module")
def prior(public):
    return fit_eigenfaces(public, components=24, seed=0)


class Counted(torch.nn.Module):
    """A network that knows how many images it was really shown."""

    def __init__(self, network):
        super().__init__()
        self.network, self.shown = network, []

    def __deepcopy__(self, memo):
        return self  # the attack's own copy is this one: what it is shown is seen here

    def forward(self, images):
        self.shown.append(len(images))
        return self.network(images)

    def embed(self, images):
        self.shown.append(len(images))
        return self.network.embed(images)

    @property
    def head(self):
        return self.network.head


def look(target, access="gradients"):
    execution = Execution(ExecutionConfig(), "cpu")
    return view_of(target, access, num_classes=PEOPLE, image_size=SIZE, execution=execution)


class Silent:
    """A workshop that keeps nothing."""

    def last_state(self):
        return None

    def keep_state(self, state):
        pass

    def progress(self, fraction, text):
        pass


@pytest.fixture(scope="module")
def given(target, prior, public):
    """(attack, protocol) -> what it is given; the parts are made once, as the stages would."""
    made = {}

    def find(name, protocol="clean"):
        common, parts, networks = {"protocol": protocol, "prior": prior, "public": public}, {}, {}
        for part in make_attack(name, **EXAMPLES[name]).parts:
            key = (protocol, part.name, repr(part.settings))
            if key not in made:
                kind = PARTS[part.name]
                told = common if kind.protocol else {**common, "protocol": None}
                asked = Given(**told, parts=parts, networks=networks)
                made[key] = kind.function()(part.settings, asked, look(target, kind.access), Silent())
            parts, networks = (
                {**known, part.name: new}
                for known, new in ((parts, made[key].tensors), (networks, made[key].networks))
            )
        return Given(**common, parts=parts, networks=networks)

    return find


def decoder_of(attack, own):
    """What makes images of the latents that the attack leaves."""
    return own.prior if attack.decoder == "prior" else own.networks[attack.decoder]["generator"]


def recognised(judge, decoder, w, target_class):
    return (judge(decoder.synthesize(w)).argmax(1) == target_class).float().mean().item()


def test_every_attack_has_an_example_and_something_to_refuse():
    assert set(EXAMPLES) == set(ATTACKS) == {name for name, _, _ in WRONG if name in ATTACKS}


@pytest.mark.parametrize(("name", "parameters", "message"), WRONG)
def test_wrong_parameters_are_refused_in_one_line(name, parameters, message):
    with pytest.raises(InputError, match=message) as refusal:
        make_attack(name, **parameters)
    assert "\n" not in str(refusal.value)


def changed(name, key, value):
    """The example with one field changed, which may be one of its pool."""
    holder, _, inner = key.rpartition(".")
    return {**EXAMPLES[name], **({holder: {**POOL, inner: value}} if holder else {key: value})}


@pytest.mark.parametrize("name", list(ATTACKS))
def test_every_field_refuses_a_value_of_another_type_under_its_own_name(name):
    wrong = nonsense_for(ATTACKS[name])
    if "pool" in EXAMPLES[name]:
        wrong += [(f"pool.{field}", value) for field, value in nonsense_for(Pool)]
    for field, value in wrong:
        with pytest.raises(InputError) as refusal:
            make_attack(name, **changed(name, field, value))
        assert str(refusal.value).startswith(f"attack.{field}: expected "), (value, str(refusal.value))
        assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_the_bounds_of_every_field_are_where_they_are_said_to_be(name):
    kind = ATTACKS[name]
    assert numbers_of(kind) <= set(EDGES), "EDGES: expected a row for every number of the attack"
    fields = {field.name for field in dataclasses.fields(kind)}
    for key, (refused, taken) in EDGES.items():
        if key.split(".")[0] not in fields:
            continue
        for value in refused:
            with pytest.raises(InputError) as refusal:
                make_attack(name, **changed(name, key, value))
            own = key if key != "pool.size" or value != 3 else ("candidates" if name == "ppa" else "selected")
            assert str(refusal.value).startswith(f"attack.{own}: expected "), (key, value, str(refusal.value))
        for value in taken:
            make_attack(name, **changed(name, key, value))


def test_a_bound_that_another_field_sets_is_the_last_value_taken():
    few = {**EXAMPLES["ppa"], "candidates": 4, "selected": 4, "pool": {**POOL, "size": 4}}
    make_attack("ppa", **few)
    with pytest.raises(InputError, match=r"^attack\.selected: expected at most candidates \(4\), got 5"):
        make_attack("ppa", **{**few, "selected": 5})
    with pytest.raises(InputError, match=r"^attack\.candidates: expected at most pool.size \(3\), got 4"):
        make_attack("ppa", **{**few, "pool": {**POOL, "size": 3}})
    still = {"selection_crop_scale": (1, 1), "selection_crop_ratio": (1, 1), "selection_hflip": 0}
    make_attack("ppa", **{**EXAMPLES["ppa"], **still, "selection_repeats": 1})
    for wrong in ({"selection_repeats": 2}, {"selection_repeats": 1, "selection_view_size": 16}):
        with pytest.raises(InputError, match=r"^attack\.selection_repeats, selection_view_size: expected 1 and none"):
            make_attack("ppa", **{**EXAMPLES["ppa"], **still, **wrong})
    for moving in ({"selection_crop_scale": (0.9, 1)}, {"selection_crop_ratio": (1, 2)}, {"selection_hflip": 0.5}):
        make_attack("ppa", **{**EXAMPLES["ppa"], **still, **moving, "selection_repeats": 2})


def test_the_tables_are_read_without_torch():
    code = "import sys; import core.attacks.registry; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


@pytest.mark.parametrize("protocol", ["clean", "paper"])
@pytest.mark.parametrize("name", list(ATTACKS))
def test_an_attack_leaks_more_than_chance_and_a_control_of_no_access_does_not(
    name, protocol, target, judge, given
):
    attack, own = make_attack(name, **EXAMPLES[name]), given(name, protocol)
    view = look(target, attack.access)
    found = [attack.invert(view, own, c, seed=7) for c in range(PEOPLE)]
    decoder = decoder_of(attack, own)
    leak = sum(recognised(judge, decoder, one.w, c) for c, one in enumerate(found)) / PEOPLE
    assert all(one.w.shape[0] == attack.selected for one in found)
    if not attack.control:
        before = [beginning(own, c, one) for c, one in enumerate(found)]
        start = sum(recognised(judge, own.prior, w, c) for c, w in enumerate(before)) / PEOPLE
        assert leak > start and leak >= 0.5
    if attack.access == "none":
        assert leak <= 0.5  # a quarter is chance; sixteen images


def beginning(own, target_class, found):
    """The prior's latents that an attack began with; where it has none, those of the control without access."""
    if "pool_index" in found.rows:
        return own.parts["pool"]["w"][found.rows["pool_index"]]
    if "starts" in own.parts:
        return own.prior.map(own.parts["starts"]["z"][target_class])
    control = make_attack("random_latents", **EXAMPLES["random_latents"])
    return control.invert(look(None, "none"), own, target_class, seed=7).w


def test_selection_only_gives_images_of_the_pool_as_they_are(target, given):
    attack = make_attack("selection_only", **EXAMPLES["selection_only"])
    own = given("selection_only")
    found = attack.invert(look(target, "scores"), own, 1, seed=7)
    pool, confidences = own.parts["pool"], own.parts["candidates"]["confidences"][:, 1]
    assert torch.equal(found.w, pool["w"][found.rows["pool_index"]])
    assert torch.equal(found.scores, confidences.sort(descending=True).values[:4])


@pytest.mark.parametrize("name", list(ATTACKS))
def test_a_class_is_the_same_alone_and_among_others_in_any_order(name, target, given):
    attack = make_attack(name, **EXAMPLES[name])
    runs = []
    for order in ([2], [0, 2], [2, 1]):
        view, prepared = look(target, attack.access), set()
        runs.append({})
        for c in order:
            runs[-1][c] = attack.invert(view, given(name), c, seed=7)
            prepared.add(len(view.execution._ready))
        assert len(prepared) == 1, "a network is prepared anew for every class, and kept"
    runs = [run[2] for run in runs]
    for other in runs[1:]:
        assert torch.equal(runs[0].w, other.w)
        assert runs[0].scores is None or torch.equal(runs[0].scores, other.scores)
    different = attack.invert(look(target, attack.access), given(name), 2, seed=8)
    assert name == "selection_only" or not torch.equal(runs[0].w, different.w)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_queries_are_those_the_network_was_shown(name, target, given):
    attack, counted = make_attack(name, **EXAMPLES[name]), Counted(target)
    view = look(counted, attack.access)
    found = attack.invert(view, given(name), 0, seed=7)
    assert view.queries == sum(counted.shown)
    if name == "ppa":
        assert 0 <= view.queries - (8 * 20 + 8 * 6) <= 4 + 2
    else:
        expected = {
            "plg_mi": (2 * 8 + 1) * 4, "rlb_mi": 2 * 480, "brep_mi": 17 * 2 * found.facts.get("passes", 0),
            **{n: (16 + 1) * 3 for n in ("gmi", "lomma_gmi")}, **{n: 24 + 3 for n in ("ked", "lomma_ked")},
        }  # fmt: skip
        assert view.queries == expected.get(name, 0)


def test_a_part_is_counted_too(target, given):
    counted = Counted(target)
    view = look(counted, "scores")
    make_candidates({}, given("ppa"), view, None)
    assert view.queries == sum(counted.shown) == 2 * POOL["size"]


@pytest.mark.parametrize("level", ACCESS_LEVELS)
def test_a_view_gives_nothing_above_its_level(level, target, faces):
    view, images = look(target, level), to_unit(faces.images[:3])
    offers = {"labels": "labels", "scores": "scores", "gradients": "logits"}
    above = ACCESS_LEVELS[ACCESS_LEVELS.index(level) + 1 :]
    for other in above:
        with pytest.raises(AttributeError):
            getattr(view, offers[other])
    assert not [value for value in vars(view).values() if isinstance(value, torch.nn.Module)]
    if level in ("scores", "gradients"):
        assert not view.scores(images.requires_grad_(True)).requires_grad
    if level != "none":
        assert view.labels(images).dtype == torch.int64
    if level == "gradients":
        assert view.logits(images).requires_grad


@pytest.mark.parametrize(("name", "level"), [
    ("ppa", "scores"), ("ppa", "labels"), ("plg_mi", "labels"), ("rlb_mi", "labels"), ("brep_mi", "none"),
])  # fmt: skip
def test_an_attack_that_reaches_above_its_view_fails(name, level, target, given):
    with pytest.raises((AttributeError, InputError)):
        make_attack(name, **EXAMPLES[name]).invert(look(target, level), given(name), 0, seed=7)


@pytest.mark.parametrize("select", ["augmented_confidence", "top_confidence"])
@pytest.mark.parametrize("optimise", ["adam", "none"])
@pytest.mark.parametrize("sample", ["top_confidence", "random"])
def test_the_stages_of_plug_and_play_can_be_swapped(sample, optimise, select, target, given):
    changed = {"sample": {"kind": sample}, "optimise": {"kind": optimise}, "select": {"kind": select}}
    settings = {key: value for key, value in EXAMPLES["ppa"].items() if key not in ("steps", "lr", "selection_repeats")}
    attack = make_attack("ppa", **settings, **changed)
    own = given("ppa")
    found = attack.invert(look(target), own, 1, seed=7)
    pool, confidences = own.parts["pool"]["w"], own.parts["candidates"]["confidences"][:, 1]
    best = confidences.argsort(descending=True)[:8]
    assert found.w.shape[0] == 4 and found.scores.tolist() == sorted(found.scores.tolist(), reverse=True)
    assert (set(found.rows["pool_index"].tolist()) <= set(best.tolist())) == (sample == "top_confidence")
    assert torch.equal(found.w, pool[found.rows["pool_index"]][:, :1]) == (optimise == "none")
    if select == "top_confidence" and optimise == "none":
        order = sorted(found.rows["pool_index"].tolist(), key=lambda row: -float(confidences[row]))
        assert sample == "random" or order[0] in best[:4].tolist()
