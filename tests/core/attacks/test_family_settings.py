"""Every attack of the table: which settings it refuses, in which words, and where its bounds are."""

import dataclasses
import subprocess
import sys

import pytest

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.errors import InputError
from tests.attack_examples import EXAMPLES, POOL, STUDENTS
from tests.nonsense import nested_of, nonsense_for, numbers_of

WRONG = [
    ("ppa", {"stepz": 3}, "does not read 'stepz'"),
    ("ppa", {"steps": 0}, "attack.steps: expected a whole number of at least 1, got 0"),
    ("ppa", {"candidates": 5, "selected": 6}, r"attack.selected: expected at most candidates \(5\), got 6"),
    ("ppa", {"select": {"kind": "by_eye"}}, "attack.select.kind: expected one of augmented_confidence"),
    ("ppa", {"select": {"kind": "top_confidence"}, "selection_repeats": 3}, "which does not read it"),
    ("ppa", {"optimise": {"kind": "none"}, "lr": 0.1}, "attack.lr: expected no value with optimise none"),
    ("ppa", {"loss": "hinge"}, "attack.loss: expected one of poincare, cross_entropy, max_margin, logit, got 'hinge'"),
    ("ppa", {"average": {"views": 0}}, "attack.average.views: expected a whole number of at least 1, got 0"),
    ("ppa", {"average": {"views": -8}}, "attack.average.views: expected a whole number of at least 1, got -8"),
    ("ppa", {"average": {"kind": "blur"}}, "attack.average.kind: expected one of transforms, noise, got 'blur'"),
    ("ppa", {"average": {"noise": 0.1}}, "attack.average.noise: expected no value with kind transforms"),
    ("ppa", {"average": {"kind": "noise", "degrees": 3.0}}, "attack.average.degrees: expected no value with kind"),
    ("ppa", {"average": {"degrees": 16.0}}, r"attack.average.degrees: expected a number in \[0, 15\], got 16.0"),
    ("ppa", {"temperature": {}}, "attack.temperature: expected no value with loss poincare"),
    ("ppa", {"restarts": {"count": 1}}, "attack.restarts.count: expected a whole number of at least 2, got 1"),
    ("ppa", {"optimise": {"kind": "none"}, "average": {}}, "attack.average: expected no value with optimise none"),
    ("ppa", {"pool": {"size": 0}}, "attack.pool.size"),
    ("ppa", {"seed": 2**63}, "attack.seed"),
    ("ppa", {"precision": "fp8"}, "attack.precision"),
    ("if_gmi", {"stage_steps": []}, r"attack.stage_steps: expected at least one stage, got \(\)"),
    ("if_gmi", {"stage_steps": [5, 0]}, "attack.stage_steps: expected "),
    ("if_gmi", {"stage_steps": [5] * 9}, "attack.radii: expected one for each of the 9 stages of stage_st"),
    ("if_gmi", {"stage_steps": [5, 5], "radii": [9.0]}, "attack.radii: expected one for each of the 2 stages of stage"),
    ("if_gmi", {"stage_steps": [5], "radii": [9.0, 9.0]}, "attack.radii: expected one for each of the 1 stages of sta"),
    ("if_gmi", {"candidates": 5, "selected": 6}, r"attack.selected: expected at most candidates \(5\), got 6"),
    ("if_gmi", {"stage_steps": [5], "rgb_skip": "kept"}, "attack.rgb_skip: expected no value with a single stage"),
    ("if_gmi", {"rgb_skip": "half"}, "attack.rgb_skip: expected "),
    ("if_gmi", {"loss": "hinge"}, "attack.loss: expected one of poincare, cross_entropy, max_margin, logit, got"),
    ("if_gmi", {"steps": 3}, "does not read 'steps'"),
    ("plg_mi", {"top_n": 0}, "attack.top_n: expected a whole number of at least 1, got 0"),
    ("plg_mi", {"loss": "hinge"}, "attack.loss: expected one of poincare, cross_entropy, max_margin, logit, got"),
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
    ("cma_es", {"components": 1}, "attack.components: expected a whole number of at least 2, got 1"),
    ("cma_es", {"population": 3}, "attack.population: expected a whole number of at least 4, got 3"),
    ("cma_es", {"max_queries": 24}, "attack.max_queries: expected at least 25, a generation for each of 1 selected"),
    ("cma_es", {"selected": 5, "max_queries": 124}, "attack.max_queries: expected at least 125"),
    ("cma_es", {"sigma": 0.0}, "attack.sigma: expected a finite number above 0, got 0.0"),
    ("surrogate_labels", {"finalists": 101}, r"attack.finalists: expected at most candidates \(100\), got 101"),
    ("surrogate_labels", {"selected": 21}, r"attack.selected: expected at most finalists \(20\), got 21"),
    ("surrogate_labels", {"pool": {"size": 50}, "candidates": 20}, r"attack.pool.size: expected at least attack.surr"),
    ("surrogate_labels", {"surrogates": {"architectures": []}}, "attack.surrogates.architectures: expected at least"),
    ("surrogate_labels", {"surrogates": {"balance": 1.0}}, r"attack.surrogates.balance: expected a number in \[0, 1\)"),
    ("surrogate_labels", {"surrogates": {"shown": "none"}}, r"attack.surrogates.shown: expected one of both, changed"),
    ("surrogate_labels", {"discriminator_weight": 0.1}, "attack.discriminator_weight: expected no value with surrog"),
    ("surrogate_labels", {"feature_weight": 1.0}, "attack.feature_weight: expected no value with surrogates"),
    ("surrogate_scores", {"loss": "cross_entropy", "temperature": {}}, "attack.temperature: expected no value with"),
    ("surrogate_scores", {"views": 0}, "attack.views: expected a whole number of at least 1, got 0"),
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
    (
        "lomma_ked",
        {"students": {"architectures": ["efficientnet_b9"]}},
        "attack.students.architectures: expected one of .*efficientnet_b2.*, got 'efficientnet_b9'",
    ),
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
    "candidates": ([0, -1, 10**9 + 1, 161], [4, 40]),
    "components": ([0, 1, 10**9 + 1], [2]),
    "population": ([0, 3, 10**9 + 1], [4]),
    "sigma": ([0, -1], [1e-9]),
    "box": ([0, -1], [1e-9]),
    "max_queries": ([0, 4, 10**9 + 1, 35], [36]),
    "finalists": ([0, -1, 10**9 + 1, 9], [4, 8]),
    "views": ([0, -1, 10**9 + 1], [1]),
    "surrogates.epochs": ([0, -1, 10**9 + 1], [1]),
    "surrogates.batch_size": ([0, 1, 10**9 + 1], [2, 160]),
    "surrogates.lr": ([0, -1], [1e-9]),
    "surrogates.momentum": ([-0.1, 1], [0, 0.999]),
    "surrogates.weight_decay": ([-0.1], [0]),
    "surrogates.balance": ([-0.1, 1], [0, 0.999]),
    "surrogates.seed": ([-1, 2**63], [0, 2**63 - 1]),
    "top_n": ([0, -1, 10**9 + 1], [1]),
    "steps": ([0, -1, 10**9 + 1], [1]),
    "stage_steps": ([(), (0,), (3, 0), (3, 10**9 + 1)], [(1,), (1,) * 8]),
    "radii": ([(), (1.0,), (1.0, 0.0), (1.0, -1.0), (1.0,) * 3], [(1e-9, 1e9), None]),
    "lr": ([0, -0.1], [1e-9, 100.0]),
    "betas": ([(-0.1, 0.5), (0.5, 1.0), (1, 0.5), (0.5,), (0.1, 0.1, 0.1), ()], [(0, 0.999)]),
    "weight_decay": ([-0.1], [0, 0.1]),
    "lr_milestones": ([(0,), (20,), (-1,), (2, 20)], [(1, 19), ()]),
    "lr_gamma": ([0, -0.1], []),  # by itself it has no effect
    "batch_size": ([0, -1, 10**9 + 1], [1]),
    "discriminator_weight": ([-0.1], [0]),
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
    "feature_weight": ([-0.1], [0]),  # more is refused by surrogates
    "average.views": ([0, -1, 10**9 + 1], [1]),
    "average.hflip": ([-0.1, 1.1], [0, 1]),
    "average.degrees": ([-0.1, 15.1], [0, 15]),
    "average.noise": ([0, -1], []),  # not read by the usual kind
    "average.crop_scale": ([(0, 1), (0.5, 1.1), (0.9, 0.5)], [(0.5, 1), (1, 1)]),
    "average.crop_ratio": ([(0, 1), (1.2, 1)], [(0.5, 2), (1, 1)]),
    "restarts.count": ([0, 1, 10**9 + 1], [2]),
    "restarts.spread": ([0, -1], [1e-9, 3]),
    "pool.size": ([0, 3, 10**9 + 1], [8]),
    "pool.seed": ([-1, 2**63], [0, 2**63 - 1]),
    "pool.truncation_psi": ([0, -0.5], [0.01, 2]),
    "pool.truncation_cutoff": ([-1, 10**9 + 1], [0, 8, None]),
    "pool.crop": ([0, -1, 10**9 + 1], [1, None]),
}
"""Field -> what its type has and it does not take, up to the bound; what it takes, down to it."""


def test_every_attack_has_an_example_and_something_to_refuse():
    assert set(EXAMPLES) == set(ATTACKS) == {name for name, _, _ in WRONG if name in ATTACKS}


@pytest.mark.parametrize(("name", "parameters", "message"), WRONG)
def test_wrong_parameters_are_refused_in_one_line(name, parameters, message):
    with pytest.raises(InputError, match=message) as refusal:
        make_attack(name, **parameters)
    assert "\n" not in str(refusal.value)


def changed(name, key, value):
    """The example with one field changed, which may be one of its nested settings."""
    holder, _, inner = key.rpartition(".")
    example = EXAMPLES[name]
    return {**example, **({holder: {**example.get(holder, {}), inner: value}} if holder else {key: value})}


@pytest.mark.parametrize("name", list(ATTACKS))
def test_every_field_refuses_a_value_of_another_type_under_its_own_name(name):
    wrong = nonsense_for(ATTACKS[name])
    for holder, settings in nested_of(ATTACKS[name]).items():
        wrong += [(f"{holder}.{field}", value) for field, value in nonsense_for(settings)]
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
            own = key if key != "pool.size" or value != 3 else ("candidates" if "candidates" in fields else "selected")
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
    code = "import sys; import smoothsweep.core.attacks.registry; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
