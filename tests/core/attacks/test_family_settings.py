"""Every attack of the table: which settings it refuses, in which words, and where its bounds are."""

import dataclasses
import subprocess
import sys

import pytest

from smoothsweep.core.attacks.registry import ATTACKS, make_attack
from smoothsweep.core.errors import InputError
from tests.attack_examples import EXAMPLES, POOL
from tests.core.attacks.examples import example
from tests.nonsense import nested_of, nonsense_for, numbers_of

WRONG = [(name, *row) for name in ATTACKS for row in example(name).WRONG] + [
    ("loki", {}, "attack.kind: expected one of ppa"),
]

EDGES = {
    "selected": ([0, -1, 10**9 + 1], [1]),
    "seed": ([-1, 2**63], [0, 2**63 - 1]),
    "reconstruction_size": ([0, 15, 10**9 + 1], [16, None]),
    "candidates": ([0, -1, 10**9 + 1, 161], [4, 40]),
    "finalists": ([0, -1, 10**9 + 1, 9], [4, 8]),
    "views": ([0, -1, 10**9 + 1], [1]),
    "surrogates.epochs": ([0, -1, 10**9 + 1], [1]),
    "surrogates.batch_size": ([0, 1, 10**9 + 1], [2, 160]),
    "surrogates.lr": ([0, -1], [1e-9]),
    "surrogates.momentum": ([-0.1, 1], [0, 0.999]),
    "surrogates.weight_decay": ([-0.1], [0]),
    "surrogates.balance": ([-0.1, 1], [0, 0.999]),
    "surrogates.seed": ([-1, 2**63], [0, 2**63 - 1]),
    "steps": ([0, -1, 10**9 + 1], [1]),
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
    "pool.size": ([0, 10**9 + 1], [8]),  # and fewer than are taken from it: see below
    "pool.seed": ([-1, 2**63], [0, 2**63 - 1]),
    "pool.truncation_psi": ([0, -0.5], [0.01, 2]),
    "pool.truncation_cutoff": ([-1, 10**9 + 1], [0, 8, None]),
    "pool.crop": ([0, -1, 10**9 + 1], [1, None]),
}
"""Field of several attacks -> what its type has and it does not take, up to the bound; what it takes, down to it.
What an attack has of its own, or bounds otherwise, stands in EDGES of its example."""


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
    edges = EDGES | getattr(example(name), "EDGES", {})
    missing = sorted(numbers_of(kind) - set(edges))
    assert not missing, f"EDGES of tests/core/attacks/examples/{name}.py: expected rows for {missing}"
    fields = {field.name for field in dataclasses.fields(kind)}
    for key, (refused, taken) in edges.items():
        if key.split(".")[0] not in fields:
            continue
        for value in refused:
            with pytest.raises(InputError) as refusal:
                make_attack(name, **changed(name, key, value))
            assert str(refusal.value).startswith(f"attack.{key}: expected "), (key, value, str(refusal.value))
        for value in taken:
            make_attack(name, **changed(name, key, value))


@pytest.mark.parametrize("name", [name for name in ATTACKS if "pool" in EXAMPLES[name]])
def test_a_pool_is_refused_that_holds_fewer_than_are_taken_from_it(name):
    attack = make_attack(name, **EXAMPLES[name])
    taken = "candidates" if hasattr(attack, "candidates") else "selected"
    few = {**EXAMPLES[name], "pool": {**EXAMPLES[name]["pool"], "size": 2}}
    with pytest.raises(InputError, match=rf"attack\.{taken}: expected at most .*2.*, got 3"):
        make_attack(name, **{**few, taken: 3})


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
