"""Verification beside a judge: its stages, planned with a builder that records what it was asked for."""

from dataclasses import fields
from types import SimpleNamespace

import pytest

from smoothsweep.core.judges.by_features import (
    Embedder,
    General,
    ReachByEmbedder,
    ReachByGeneral,
    VerifiedByEmbedder,
    VerifiedByGeneral,
    strangers_least,
)

KINDS = [VerifiedByEmbedder, ReachByEmbedder, VerifiedByGeneral, ReachByGeneral]


class Bench:
    """Tells what it is asked for in the place of each stage."""

    def stated(self, without=()):
        raise AssertionError("the settings stand in the judge's own configuration")

    def content(self, path, key):
        return {"content": f"{path} of {key}"}

    def staged(self, name):
        return f"staged {name}"

    def data(self, size, *, as_trained=False):
        return ("data", size, as_trained)

    def embeddings(self, inputs, config, hints=()):
        return ("real", dict(inputs), dict(config), dict(hints))

    def strangers(self, config, hints):
        return ("strangers", dict(config), dict(hints))

    def projected(self, data, images):
        return ("projected", data, images)


@pytest.mark.parametrize("verify", [None, True])
@pytest.mark.parametrize("weights", [None, "own.bin"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_stage_reads_the_judges_real_images_and_strangers_and_what_it_is_about(kind, weights, verify):
    judged = (General if kind.accompanies == "general" else Embedder)(
        name={"general": "swag_vit_b_16", "embedder": "facenet"}[kind.accompanies], weights=weights, verify=verify
    )
    beside = kind.accompanying(judged)
    assert {one.name: getattr(beside, one.name) for one in fields(beside)} == {
        one.name: getattr(judged, one.name) for one in fields(beside)
    }
    planned, its = beside.plan(Bench(), "judge_x"), judged.plan(Bench(), "judge_y")
    prefix = "general_" if kind.accompanies == "general" else ""
    reach = kind in (ReachByEmbedder, ReachByGeneral)
    assert planned.config == {**its.config, "prefix": prefix} | ({"closed": kind.accompanies} if reach else {})
    assert planned.hints == its.hints == ({} if weights is None else {"path": "own.bin"})
    least = {"least": 50} if verify else {}
    assert planned.inputs == {
        "real": its.inputs["real"],
        "strangers": ("strangers", {**its.config, "most": 1000}, {**its.hints, **least}),
        **({"projected": ("projected", ("data", judged.size, False), 50)} if reach else {"loot": "loot"}),
    }
    assert kind.requested_by == f"judges.{kind.accompanies}"
    assert kind.work.labelled == (("real", "projected") if reach else ("real", "loot"))
    assert kind.work.run == f"smoothsweep.tasks.judges:{'reach' if reach else 'verify'}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("verify", "public", "prior"), [(a, b, c) for a in (False, None, True) for b in (0, 1) for c in (0, 1)]
)
def test_it_is_wanted_where_there_are_strangers_and_for_the_reach_a_prior(kind, verify, public, prior):
    beside = kind(name="facenet", verify=verify)
    expected = verify is not False and public and (prior or kind in (VerifiedByEmbedder, VerifiedByGeneral))
    sweep = SimpleNamespace(public={"kind": "synthetic"} if public else None, reads_prior=bool(prior))
    assert beside.wanted(sweep) == bool(expected)
    assert beside.check(sweep) is None, "the judge itself has been checked"


def test_how_many_strangers_there_must_be():
    assert [strangers_least(verify) for verify in (True, False, None)] == [50, 0, 0]
