"""What a cost is told by: names that stages really have, and the things that make them dearer."""

import pytest

from smoothsweep.orchestrator.planning.costs import History
from smoothsweep.orchestrator.stages.stage import Stage


def target(image_size=32, **changes):
    data = Stage(name="data", config={"kind": "synthetic", "size": image_size, "seed": changes.pop("data_seed", 0)})
    config = {"architecture": "resnet_small", "epochs": 2, "lr": 0.1, "defense": {"kind": "mid", "beta": 1}, **changes}
    return Stage(name="target", config=config, inputs={"data": data})


def attack(**changes):
    config = {"kind": "ppa", "steps": 3, "lr": 0.1, "seed": [1, 2], "classes": "all", "pool": {"size": 4}, **changes}
    return Stage(name="attack", config=config)


@pytest.mark.parametrize(
    "alike",
    [
        (target(), target(lr=0.2)),
        (target(), target(data_seed=3)),
        (target(), target(defense={"kind": "mid", "beta": 2})),
        (attack(), attack(seed=[2, 3])),
        (attack(), attack(lr=0.3)),
        (attack(classes=[1, 2]), attack(classes=[3, 4])),
    ],
)
def test_what_makes_nothing_dearer_tells_the_cost_of_the_other(alike):
    history = History()
    history.add_stage(alike[0], 4.0)
    assert history.expected(alike[1]) == (4.0, 4.0, 4.0)


@pytest.mark.parametrize(
    "other",
    [
        (target(), target(epochs=3)),
        (target(), target(defense={"kind": "bido"})),
        (target(), target(image_size=64)),
        (attack(), attack(steps=4)),
        (attack(), attack(pool={"size": 5})),
        (attack(classes=[1, 2]), attack(classes=[1])),
        (attack(), attack(newcomer="a word")),
    ],
)
def test_what_makes_a_stage_dearer_tells_nothing(other):
    history = History()
    history.add_stage(other[0], 4.0)
    assert history.expected(other[1]) is None


def test_a_forecast_is_the_mean_between_the_least_and_the_most():
    history = History()
    for seconds in (4.0, 1.0, 7.0):
        history.add_stage(target(), seconds)
    assert history.expected(target()) == (4.0, 1.0, 7.0)
    assert history.total([target(), attack()], lambda stage: 2.0)[:4] == (8.0, 2.0, 14.0, 1)
    assert history.total([target(), target()])[:4] == (8.0, 2.0, 14.0, 0)


def test_what_is_like_no_measured_stage_usually_takes_what_its_kind_took():
    history = History()
    assert history.usual("target") is None
    for seconds in (2.0, 4.0, 9.0):
        history.add_stage(target(epochs=int(seconds)), seconds)
    assert history.expected(target(epochs=77)) is None
    assert history.usual("target") == 5.0 and history.usual("attack") is None
