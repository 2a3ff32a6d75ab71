"""Verification beside a judge: its columns, computed by hand, and its stages, planned with a builder that records what
it was asked for."""

from dataclasses import fields
from types import SimpleNamespace

import pytest

from smoothsweep.core.judges.embedder import Embedder
from smoothsweep.core.judges.general import General
from smoothsweep.core.judges.verification import (
    ReachByEmbedder,
    ReachByGeneral,
    VerifiedByEmbedder,
    VerifiedByGeneral,
    strangers_least,
)

BESIDE = [
    ("", "", VerifiedByEmbedder, ReachByEmbedder),
    ("general_", ", general judge", VerifiedByGeneral, ReachByGeneral),
]
KINDS = [kind for row in BESIDE for kind in row[2:]]
STRANGERS = "needs the judge's key verify, and {} or more public images of the sweep as strangers"
OF_THE_PRIOR = f"{STRANGERS.format(50)}, and an attack that draws with the sweep's prior"


def columns(kind):
    found = {metric.key: metric for metric in kind.columns}
    assert len(found) == len(kind.columns)
    return found


def claims(metric):
    """All but the words that a reader sees, which docs/columns.md keeps."""
    return (metric.unit, metric.range, metric.better, metric.group, metric.searched, metric.verifies, metric.counted)


@pytest.mark.parametrize(("prefix", "judge", "kind", "_"), BESIDE)
def test_the_columns_of_verification(prefix, judge, kind, _):
    found = columns(kind)
    for rate, chance, least, said in (("far1", 0.01, 50, "1 %"), ("far01", 0.001, 500, "0.1 %")):
        leak, real = (found.pop(f"{prefix}verified_{rate}{end}") for end in ("", "_real"))
        assert claims(leak) == ("percent", (0.0, 1.0), "low", "leak", True, True, "reconstructions")
        assert claims(real) == ("percent", (0.0, 1.0), None, "check", False, False, "test images")
        assert (leak.chance, leak.ceiling, real.chance, real.ceiling) == (chance, real.key, None, None)
        assert leak.reach == (f"{prefix}verified_far1_reach" if rate == "far1" else None)
        assert leak.null == real.null == STRANGERS.format(least)
        assert leak.label == f"verified at {said}{judge}" and f"accepts {said} of photographs" in leak.description
    others = found.pop(f"{prefix}verified_far1_others")
    assert claims(others) == ("percent", (0.0, 1.0), None, "check", False, False, "test images")
    assert others.null == STRANGERS.format(50)
    rank, real = (found.pop(f"{prefix}gallery_rank{end}") for end in ("", "_real"))
    assert claims(rank) == ("plain", (1, 501), "high", "leak", True, False, None) and rank.chance == 1 + 500 / 2
    assert claims(real) == ("plain", (1, 501), None, "check", False, False, None) and real.chance is None
    assert rank.null == real.null == STRANGERS.format(500) and not found


@pytest.mark.parametrize(("prefix", "judge", "_", "kind"), BESIDE)
def test_the_columns_of_the_reach(prefix, judge, _, kind):
    found = columns(kind)
    for key in (f"{kind.closed}_reach", f"{prefix}verified_far1_reach"):
        one = found.pop(key)
        assert claims(one) == ("percent", (0.0, 1.0), None, "check", False, False, "own images")
        assert one.null == OF_THE_PRIOR and one.label.endswith(judge) and one.description.startswith("Of 50 real")
    images = found.pop(f"{prefix}reach_images")
    assert claims(images) == ("plain", (0, 50), None, "check", False, False, None) and images.null == OF_THE_PRIOR
    assert not found and kind.closed == ("general" if prefix else "embedder")


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
    assert kind.work.run == f"smoothsweep.tasks.verification:{'reach' if reach else 'verify'}"


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
