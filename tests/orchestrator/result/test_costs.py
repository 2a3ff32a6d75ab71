"""What stages cost, shared in every way: by trials of a recipe, by recipes, by fresh seeds; on several devices."""

import pytest
from made_rows import made_data

from smoothsweep.orchestrator.result.data import Axis, StageLink
from smoothsweep.orchestrator.result.defenses import OTHERS, SHARED, cost_rows
from smoothsweep.orchestrator.result.summary import summarise


def link(stage, path, seconds, devices=1.0):
    return StageLink(stage=stage, path=path, seconds=seconds, devices=devices)


PRIOR, POOL = link("prior", "prior", 1000.0, 8.0), link("pool", "pool/a", 40.0)
LINKS = {
    "a1": (PRIOR, link("target", "t/a1", 100.0, 2.0), POOL, link("attack", "x/a1", 7.0)),
    "a2": (PRIOR, link("target", "t/a2", 110.0, 2.0), POOL, link("attack", "x/a2", 9.0)),
    "b1": (PRIOR, link("target", "t/b1", 130.0), link("attack", "x/b1", 11.0), link("attack", "x/b1", 11.0)),
    "fresh": (PRIOR, link("target", "t/fresh", 17.0), link("attack", "x/a1", 7.0)),
}


def found(links):
    rows = [
        {"seed": int(trial[1]), "name": trial[0], "trial": trial, "embedder_acc1": 0.3} for trial in ("a1", "a2", "b1")
    ]
    return made_data(rows, Axis(key="name", bare=True), links=links)


def cost(*parts):
    """(device-seconds, times used) of each stage -> stages, seconds and what was saved, by hand."""
    saved = sum(seconds * (uses - 1) for seconds, uses in parts)
    return (len(parts), pytest.approx(sum(seconds for seconds, _ in parts)), pytest.approx(saved))


def test_each_stage_counts_once_and_by_what_it_saved():
    """Uses: the prior by four trials, the pool by two of one recipe, one attack by a trial and by a fresh seed."""
    data = found(LINKS)
    rows = cost_rows(data, summarise(data)).itertuples(index=False)
    told = {(row.by, row.name): (row.stages, row.device_s, row.saved_s) for row in rows}
    prior, pool, targets = (8000.0, 4), (40.0, 2), [(200.0, 1), (220.0, 1), (130.0, 1), (17.0, 1)]
    attacks = [(7.0, 2), (9.0, 1), (11.0, 1)]
    assert told == {
        ("all", ""): cost(prior, pool, *targets, *attacks),
        ("stage", "prior"): cost(prior),
        ("stage", "target"): cost(*targets),
        ("stage", "candidate pool"): cost(pool),
        ("stage", "attack"): cost(*attacks),
        ("recipe", SHARED): cost(prior, (7.0, 2)),
        ("recipe", "a"): cost((200.0, 1), pool, (220.0, 1), (9.0, 1)),
        ("recipe", "b"): cost((130.0, 1), (11.0, 1)),
        ("recipe", OTHERS): cost((17.0, 1)),
    }


def test_without_manifests_there_are_no_costs():
    for links in ({}, {"a1": ()}):
        data = found(links)
        assert not len(cost_rows(data, summarise(data)))
