"""What a report says that its sweep is made of."""

from tiny import tiny_sweep

from smoothsweep.orchestrator.commands.reporting.facts import members_used
from smoothsweep.sweeps.loaded import check

POOL = {"size": 20}


def settings(**changes):
    return check(tiny_sweep(grid={}, baseline={}, **changes), "tiny.yaml")


def test_every_member_of_a_family_is_named_once_in_the_order_of_the_trials():
    drawn = settings(attack={"kind": "random_latents", "selected": 2})
    selected = settings(attack={"kind": "selection_only", "selected": 2, "pool": POOL})
    found = members_used([selected, drawn, selected])
    assert found["Attack"].split("; ") == [selected.attack.words, drawn.attack.words]
    assert found["Prior"] == "eigenfaces" and found["Private data"] == "synthetic"


def test_a_prior_is_called_what_its_kind_says():
    assert members_used([settings(prior={"kind": "shipped"}, public=None)])["Prior"] == "shipped generator"


def test_a_sweep_that_attacks_nothing_names_no_attack_and_no_prior():
    without = settings(attack=None, prior=None, public=None, judges={})
    assert members_used([without]) == {"Private data": "synthetic"}
