"""Every attack of the table: what it finds, sees, is counted for, says of itself, and which settings it refuses."""

import dataclasses
from typing import Annotated, ClassVar, get_args, get_origin, get_type_hints

import pytest
import torch

from smoothsweep.core.attacks.registry import ATTACKS, PARTS, make_attack
from smoothsweep.core.attacks.shared.base import ACCESS_LEVELS
from smoothsweep.core.data.images import to_unit
from smoothsweep.core.errors import InputError
from tests.core.attacks.examples import EXAMPLES, PEOPLE, POOL, example, needed
from tests.core.attacks.looking import Counted, look, recognised, taken_for
from tests.nonsense import beyond, nested_of


def decoder_of(attack, own):
    """What makes images of the latents that the attack leaves."""
    return own.prior if attack.decoder == "prior" else own.networks[attack.decoder]["generator"]


def leaked(judge, decoder, found, target_class):
    """The share of what an attack has left of a class that a judge takes for it."""
    if found.images is not None:
        return taken_for(judge, found.images.float(), target_class)
    return recognised(judge, decoder, found.w, target_class)


@pytest.fixture(scope="module")
def inverted(target, given):
    """(attack, protocol) -> what it leaves of everybody, one person after the other through one view, which counts the
    queries, and how many images the network was shown; made once."""
    made = {}

    def find(name, protocol="clean"):
        if (name, protocol) not in made:
            attack, own, prepared, found = make_attack(name, **EXAMPLES[name]), given(name, protocol), set(), []
            counted = Counted(target)
            view = look(counted, attack.access)
            for c in range(PEOPLE):
                found.append(attack.invert(view, own, c, seed=7))
                prepared.add(len(view.execution._made))
            assert len(prepared) == 1, PREPARED_ANEW
            made[name, protocol] = found, view.queries, sum(counted.shown)
        return made[name, protocol]

    return find


PREPARED_ANEW = "a network is prepared anew for every class, and kept"


def protocols():
    """Every attack under both protocols; where one takes many seconds, the paper's is a slow test."""
    for name in ATTACKS:
        slow = [pytest.mark.slow] if getattr(example(name), "DEAR", False) else []
        yield from (pytest.param(name, "clean"), pytest.param(name, "paper", marks=slow))


@pytest.mark.parametrize(("name", "protocol"), list(protocols()))
def test_an_attack_leaks_more_than_chance_and_a_control_of_no_access_does_not(
    name, protocol, target, judge, given, inverted
):
    attack, own = make_attack(name, **EXAMPLES[name]), given(name, protocol)
    view, (found, _, _) = look(Counted(target), attack.access), inverted(name, protocol)
    decoder = decoder_of(attack, own)
    leak = sum(leaked(judge, decoder, one, c) for c, one in enumerate(found)) / PEOPLE
    expected = example(name)
    bar = 0.5 if getattr(expected, "OPTIMISES", True) else expected.LEAST_LEAK
    if hasattr(expected, "MOST_SEEDS"):
        leaks, bar = [leak], expected.LEAST_LEAK
        while sum(leaks) / len(leaks) < bar and len(leaks) < expected.MOST_SEEDS:
            again = [attack.invert(view, own, c, seed=7 + len(leaks)) for c in range(PEOPLE)]
            leaks.append(sum(leaked(judge, decoder, one, c) for c, one in enumerate(again)) / PEOPLE)
        leak = sum(leaks) / len(leaks)
    assert all(len(one) == attack.selected for one in found)
    assert all((one.images is not None) == attack.leaves_images >= (one.w is None) for one in found)
    assert all(len(one.images) == attack.selected for one in found if one.images is not None)
    if not attack.control:
        before = [beginning(own, c, one) for c, one in enumerate(found)]
        start = sum(recognised(judge, own.prior, w, c) for c, w in enumerate(before)) / PEOPLE
        assert (leak > start or not getattr(expected, "OPTIMISES", True)) and leak >= bar
    if attack.access == "none":
        assert leak <= 0.5  # a quarter is chance; sixteen images


def beginning(own, target_class, found):
    """The prior's latents that an attack began with; where it has none, those of the control without access."""
    if "pool_index" in found.rows and "pool" in own.parts:
        return own.parts["pool"]["w"][found.rows["pool_index"]]
    if "pictures" in own.parts:
        return own.parts["pictures"]["w"][found.rows["pool_index"]]
    if "starts" in own.parts:
        return own.prior.map(own.parts["starts"]["z"][target_class])
    control = make_attack("random_latents", **EXAMPLES["random_latents"])
    return control.invert(look(None, "none"), own, target_class, seed=7).w


@pytest.mark.parametrize("name", list(ATTACKS))
def test_a_class_is_the_same_alone_and_among_others_in_any_order(name, target, given, inverted):
    """Where no shorter settings are stated the others are those of the test above."""
    short = getattr(example(name), "SHORT", None)
    attack, orders = make_attack(name, **{**EXAMPLES[name], **(short or {})}), [[(2, 7), (2, 8)]]
    if short is not None:
        orders.append([(0, 7), (2, 7)])
    runs = []
    for order in orders:
        view, prepared = look(Counted(target), attack.access), set()
        runs.append({})
        for c, seed in order:
            runs[-1][c, seed] = attack.invert(view, given(name), c, seed=seed)
            prepared.add(len(view.execution._made))
        assert len(prepared) == 1, PREPARED_ANEW
    alone, different = runs[0][2, 7], runs[0][2, 8]
    other = inverted(name)[0][2] if short is None else runs[1][2, 7]
    for one in ("w", "images", "scores"):
        assert getattr(alone, one) is None or torch.equal(getattr(alone, one), getattr(other, one)), one
    drawn = "images" if alone.w is None else "w"
    same = torch.equal(getattr(alone, drawn), getattr(different, drawn))
    assert not (getattr(example(name), "DRAWS", True) and same)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_queries_are_those_the_network_was_shown(name, inverted):
    (found, queries, shown), stated = inverted(name), example(name)
    assert queries == sum(stated.QUERIES if hasattr(stated, "QUERIES") else stated.queries(one) for one in found)
    assert shown - queries in (0, 2 + 4)  # those that measured how many rows to compute at once


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


@pytest.mark.parametrize(
    ("name", "level"), [(name, level) for name in ATTACKS for level in getattr(example(name), "TOO_LITTLE", ())]
)
def test_an_attack_that_reaches_above_its_view_fails(name, level, target, given):
    with pytest.raises((AttributeError, InputError)):
        make_attack(name, **EXAMPLES[name]).invert(look(target, level), given(name), 0, seed=7)


WRONG = [(name, *row) for name in ATTACKS for row in example(name).WRONG] + [
    ("loki", {}, "attack.kind: expected one of ppa")
]

RELATIVE = {
    "candidates": ([161], [4, 40]),
    "finalists": ([9], [4, 8]),
    "lr_milestones": ([(0,), (20,), (-1,), (2, 20)], [(1, 19), ()]),
    "crop_scale": ([(0, 1), (0.5, 1.1), (0.9, 0.5), (0.5,)], [(0.5, 1), (1, 1)]),
    "crop_ratio": ([(0, 1), (1.2, 1), (1,)], [(0.5, 2), (1, 1)]),
    "selection_crop_scale": ([(0, 1), (0.5, 1.1), (0.9, 0.5), (0.5,)], [(0.5, 1), (1, 1)]),
    "selection_crop_ratio": ([(0, 1), (1.2, 1), (1,)], [(0.5, 2), (1, 1)]),
    "average.crop_scale": ([(0, 1), (0.5, 1.1), (0.9, 0.5)], [(0.5, 1), (1, 1)]),
    "average.crop_ratio": ([(0, 1), (1.2, 1)], [(0.5, 2), (1, 1)]),
    "stage_steps": ([(), (3, 0)], [(1,), (1,) * 8]),
    "radii": ([(), (1.0,), (1.0, 0.0), (1.0,) * 3], [(1e-9, 1e9), None]),
    "episodes": ([32], [33]),
    "at_once": ([32], [1]),
    "minibatch": ([], [16, 479]),
    "max_queries": ([35], [36]),
    "feature_weight": ([], [0]),  # more is refused by surrogates
}
"""Field whose bounds other fields or a pair set -> what it does not take, up to the bound; what it takes."""


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


def refused(name, key, value):
    with pytest.raises(InputError) as refusal:
        make_attack(name, **changed(name, key, value))
    assert str(refusal.value).startswith(f"attack.{key}: expected "), (key, value, str(refusal.value))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("name", list(ATTACKS))
def test_every_number_has_bounds_and_refuses_what_is_beyond_them(name):
    tried = 0
    for holder, declared in {"": ATTACKS[name], **nested_of(ATTACKS[name])}.items():
        for field, hint in get_type_hints(declared, include_extras=True).items():
            key = f"{holder}.{field}" if holder else field
            if get_origin(hint) is not ClassVar and field not in {of.rpartition(".")[2] for of in RELATIVE}:
                assert beyond(hint) or not without_bounds(hint), key
                for value in beyond(hint):
                    refused(name, key, value)
                    tried += 1
    assert tried > 3


def without_bounds(hint):
    """Whether a number of this type has none."""
    inside = () if get_origin(hint) is Annotated else get_args(hint)
    return hint in (int, float) or any(map(without_bounds, inside))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (name, key)
        for name, attack in ATTACKS.items()
        for key in RELATIVE
        if key.split(".")[0] in {field.name for field in dataclasses.fields(attack)}
    ],
)
def test_bounds_that_other_fields_set_are_where_they_are_said_to_be(name, key):
    beyond_it, taken = RELATIVE[key]
    for value in beyond_it:
        refused(name, key, value)
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


DECLARED = {(name, form): row for name in ATTACKS for form, row in example(name).DECLARED.items()}


def made(kind, form="", **more):
    settings = DECLARED[kind, form][0] if (kind, form) in DECLARED else {}
    return make_attack(kind, **needed(kind), **settings, **more)


def test_every_attack_is_declared_in_each_of_its_forms():
    assert {kind for kind, _ in DECLARED} == set(ATTACKS)
    assert all(row[0].get("form", form) == form for (_, form), row in DECLARED.items())
    forms = {(kind, form) for kind, attack in ATTACKS.items() for form in get_args(get_type_hints(attack).get("form"))}
    assert forms == {(kind, form) for kind, form in DECLARED if "form" in DECLARED[kind, form][0]}


@pytest.mark.parametrize(("kind", "form"), DECLARED)
def test_an_attack_has_the_parts_of_its_form_and_reads_no_others(kind, form):
    attack, (settings, parts, decoder, at_once) = made(kind, form), DECLARED[kind, form]
    assert tuple(part.name for part in attack.parts) == parts and attack.decoder == decoder
    reads = [name for name in attack.needs if name in PARTS]
    assert set(reads) <= set(parts) and (decoder == "prior" or decoder in reads)
    for place, part in enumerate(attack.parts):
        assert not {*part.needs} & {*parts[place:]}, "it is made before it is read"
    assert (attack.class_batch("paper"), attack.class_batch("clean")) == (at_once, 1)
    assert "form" not in settings or attack.variant == form
    learners = [getattr(attack, name) for name in ("students", "surrogates") if name in parts]
    assert attack.pretrained == tuple(name for one in learners if one.pretrained for name in one.architectures)


@pytest.mark.parametrize(("kind", "form"), DECLARED)
def test_public_images_are_asked_for_by_attacks_that_learn_from_them_alone(kind, form):
    attack = made(kind, form)
    tried = {"image_size": 64, "prior_kind": "stylegan2"}
    attack.check(has_public=True, **tried)
    if any("public" in part.needs for part in attack.parts):
        with pytest.raises(InputError, match=r"^public: expected the images that this attack learns from, got none$"):
            attack.check(has_public=False, **tried)
    else:
        attack.check(has_public=False, **tried)


def test_parts_are_those_that_some_attack_has_and_their_tables_are_whole():
    used = {part.name for kind, form in DECLARED for part in made(kind, form).parts}
    assert used == set(PARTS)
    for kind in PARTS.values():
        assert callable(kind.function()) and kind.access in ACCESS_LEVELS
        assert type(kind.version) is int and kind.version >= 1


def test_a_stated_rate_has_a_source_and_follows_the_settings():
    stated = [one for one in (made(kind).stated_work for kind in ATTACKS) if one is not None]
    assert stated and all(one.source and one.hours > 0 for one in stated)
    few, many = (made("ppa", candidates=count, pool={"size": 400}).stated_work for count in (50, 200))
    assert (many.latents, many.hours) == (200, pytest.approx(4 * few.hours))
