"""Every strategy of the table by what it declares: what it proposes and refuses. A new one needs no line here."""

import pytest
from made import SPACE, load, work_off

from smoothsweep.core.errors import InputError
from smoothsweep.orchestrator.planning.trial import ProposalLog, trials_of
from smoothsweep.orchestrator.store.base import Store
from smoothsweep.sweeps.search import STRATEGIES

OWN = {key for kind in STRATEGIES.values() for key in kind.own}
GIVEN = {
    "sampler": "tpe",
    "rungs": [{"keep": 0.5, "set": {"attack.steps": 2}}],
    "audit": 1,
    "first_seeds": 1,
}
"""A value of each key that belongs to a strategy."""
BASELINE = {"recipe.defense.alpha": 0.0}
FINITE = {**SPACE, "recipe.defense.alpha": {"choices": [-0.5, -0.1, 0.3]}}


def asked(name, **changes):
    """`search` of a sweep file with this strategy, as small as it may be."""
    kind = STRATEGIES[name]
    given = {"strategy": name, "recipes": 6, "seed": 3, **{key: GIVEN[key] for key in kind.needs}}
    space = {"space": FINITE} if kind.whole_space else {}
    return {**{key: value for key, value in given.items() if key not in kind.without}, **space, **changes}


def made(folder, name, **changes):
    loaded = load(folder, asked(name, **changes), seeds=[1, 2], baseline=BASELINE)
    return loaded, Store(root=folder / "store")


@pytest.mark.parametrize("name", STRATEGIES)
def test_it_tries_the_baseline_first_and_then_recipes_of_the_space_each_once(name, tmp_path):
    loaded, store = made(tmp_path, name)
    store.open_for_writing()
    agenda, ended = work_off(loaded, store)
    proposals = agenda.proposals
    assert ended and proposals[0].origin == "baseline"
    new = [one for one in proposals if one.of is None]
    assert len({tuple(sorted(one.values.items())) for one in new}) == len(new) > 1
    space = loaded.sweep.search.dimensions
    assert all(set(one.values) <= set(space.keys) for one in new[1:])
    assert STRATEGIES[name].whole_space or len(new) <= 6


@pytest.mark.parametrize("name", STRATEGIES)
def test_killed_in_the_middle_it_proposes_what_it_would_have(name, tmp_path):
    """Another process, with what the store has; trials end in another order, and none is run twice."""
    found = []
    for folder, stop in (("whole", None), ("stopped", 3)):
        loaded, store = made(tmp_path / folder, name)
        store.open_for_writing()
        agenda, done = work_off(loaded, store, shuffle=1, stop_after=stop)
        if stop is not None:
            done += work_off(loaded, store, shuffle=2, stop_after=4)[1]
            agenda, last = work_off(loaded, store, shuffle=5)
            done += last
        assert len({trial.id for trial in done}) == len(done) == len(trials_of(loaded, store))
        found.append([(one.number, one.values, one.rung, one.origin, one.of, one.seeds) for one in agenda.proposals])
    assert found[0] == found[1] and len(found[0]) > 3


@pytest.mark.parametrize("name", STRATEGIES)
def test_keys_of_other_strategies_and_missing_ones_are_one_line(name, tmp_path):
    kind = STRATEGIES[name]
    others = {key: GIVEN[key] for key in OWN if key not in kind.own}
    useless = {key: 3 for key in kind.without}
    missing = {key: None if key == "recipes" else () for key in {*kind.needs, *({"recipes"} - set(kind.without))}}
    for key, value in {**others, **useless, **missing}.items():
        with pytest.raises(InputError, match=rf"search.*{key}: expected .* strategy") as caught:
            made(tmp_path, name, **{key: value})
        assert "\n" not in str(caught.value)
    if kind.whole_space:
        with pytest.raises(InputError, match="expected choices or a step with strategy"):
            made(tmp_path, name, space={"recipe.defense.alpha": {"low": -0.5, "high": 0.3}})


@pytest.mark.parametrize("name", STRATEGIES)
def test_another_number_of_recipes_goes_on_with_a_search_unless_it_shapes_it(name, tmp_path):
    if "recipes" in STRATEGIES[name].without:
        return
    loaded, store = made(tmp_path, name)
    store.open_for_writing()
    before = work_off(loaded, store, stop_after=2)[0].proposals
    more, _ = made(tmp_path, name, recipes=8)
    said = ProposalLog(more, store).open_for_appending()
    known = ProposalLog(more, store).proposals()
    if STRATEGIES[name].count_shapes:
        assert known == [] and "it starts anew" in said
    else:
        assert known == before and said is None
