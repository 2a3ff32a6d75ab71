"""What a leak stands beside: the same from an audit in memory and from the stages of a sweep, number by number."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from smoothsweep.core.audit.judging import fit_embedder
from smoothsweep.core.audit.standing import CLOSED_SET_NOTE, compare_with_references, few_strangers_note
from smoothsweep.core.audit.statistics import Tally
from smoothsweep.core.data.labelled import SplitImages
from smoothsweep.core.data.synthetic import synthetic_faces
from smoothsweep.core.metrics.intervals import rate_interval
from smoothsweep.core.priors.eigenfaces import fit_eigenfaces
from smoothsweep.core.priors.registry import save_prior
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import save_images, save_tensors
from smoothsweep.tasks.judges import (
    embed_real_images,
    embed_strangers,
    judge_by_embedder,
    project_photographs,
    reach,
    verify,
)

SIDE, MOST = 32, 1000
NETWORK = {"network": "synthetic"}
PEOPLE = 3


@pytest.fixture(scope="module")
def people():
    train = synthetic_faces(identities=PEOPLE, per_identity=8, size=SIDE, seed=5, population="private")
    test = synthetic_faces(identities=PEOPLE, per_identity=4, size=SIDE, seed=5, population="private", first_image=20)
    return SplitImages(train=train, test=test, notes=())


def drawn(people, prior, seed):
    """Pictures between a person and nobody, so that some are taken for the person and some are not."""
    generator = torch.Generator().manual_seed(seed)
    w = prior.encode(people.test.images.float() / 127.5 - 1)
    noise = torch.randn(w.shape, generator=generator) * torch.tensor([0.1, 1.0, 3.0, 6.0]).repeat(PEOPLE)[:, None, None]
    images = ((prior.synthesize(w + noise).detach().clamp(-1, 1) + 1) * 127.5).round().to(torch.uint8)
    return images, people.test.labels


@pytest.fixture(scope="module", params=[500, 50, 30])
def both(request, people, tmp_path_factory):
    """The table in memory, and the columns by the stages, of two seeds each."""
    root = tmp_path_factory.mktemp("both")
    public = synthetic_faces(identities=request.param, per_identity=1, size=SIDE, seed=5, population="public").images
    prior = fit_eigenfaces(public, components=20, seed=0)
    judge = fit_embedder(people, "synthetic", weights=None, device="cpu")
    attacks = {name: [drawn(people, prior, seed + at) for at in (0, 1)] for name, seed in (("own", 0), ("control", 9))}
    tallies = {name: Tally.of([judge.hits(*one)[1] for one in found], found[0][1]) for name, found in attacks.items()}
    found = compare_with_references(
        by=judge.recogniser,
        metric=judge.metric,
        ceiling=judge.sensitivity.share,
        strongest=tallies["own"],
        control=tallies["control"],
        drawn=attacks["own"],
        drawn_by_control=attacks["control"],
        attacker=SimpleNamespace(
            prior=prior, public=public, model=SimpleNamespace(execution=SimpleNamespace(device="cpu"))
        ),
        crop=None,
        classes=PEOPLE,
    )
    return found, by_stages(root, people, public, prior, attacks), request.param


def by_stages(root, people, public, prior, attacks):
    """Column -> its value of the attack under each seed; `control.COLUMN` -> of the control."""
    context = TaskContext(work=root / "work")
    folders = {name: root / name for name in ("data", "public", "prior", "real", "strangers", "projected")}
    for folder in (*folders.values(), context.work):
        folder.mkdir()
    for part in ("train", "test"):
        save_images(folders["data"], part, getattr(people, part))
    save_tensors(folders["public"] / "images.safetensors", {"images": public})
    save_prior(prior, folders["prior"])
    embed_real_images(NETWORK, folders, folders["real"], context)
    embed_strangers({**NETWORK, "most": MOST}, folders, folders["strangers"], context)
    project_photographs({"images": 50, "seed": 0}, folders, folders["projected"], context)
    (root / "reach").mkdir()
    asked = {**NETWORK, "prefix": "", "closed": "embedder"}
    columns: dict[str, list] = {key: [value] for key, value in reach(asked, folders, root / "reach", context).items()}
    for name, found in attacks.items():
        for at, (images, labels) in enumerate(found):
            reconstructions, out = root / f"{name}{at}", root / f"{name}{at}-out"
            reconstructions.mkdir(), out.mkdir()
            save_tensors(reconstructions / "images.safetensors", {"images": images, "labels": labels})
            inputs = {**folders, "loot": reconstructions}  # the role's name in stores
            numbers = {**judge_by_embedder(NETWORK, inputs, out, context), **verify(asked, inputs, out, context)}
            for key, value in numbers.items():
                columns.setdefault(key if name == "own" else f"control.{key}", []).append(value)
            if name == "own" and (out / "per_class.parquet").is_file():
                columns.setdefault("per_class", []).append(pd.read_parquet(out / "per_class.parquet"))
    return columns


def mean(values):
    return float(np.mean(values)) if None not in values else float("nan")


def test_both_doors_give_the_same_numbers(both):
    found, columns, strangers = both
    table = found.table.set_index("metric")
    expected = ["embedder_acc1", "verified_far1", "verified_far01", "gallery_rank"]
    assert list(table.index) == expected[: 4 if strangers >= 500 else 2 if strangers >= 50 else 1]
    ceilings = {"embedder_acc1": "embedder_real_acc"}
    reaches = {"embedder_acc1": "embedder_reach", "verified_far1": "verified_far1_reach"}
    for metric, row in table.iterrows():
        assert row["leak"] == pytest.approx(mean(columns[metric])), metric
        assert row["control"] == pytest.approx(mean(columns[f"control.{metric}"])), metric
        assert row["ceiling"] == pytest.approx(mean(columns[ceilings.get(metric, f"{metric}_real")])), metric
        reached = columns[reaches[metric]][0] if metric in reaches else None
        assert row["reach"] == pytest.approx(np.nan if reached is None else reached, nan_ok=True), metric
    if strangers >= 500:
        assert 0 < columns["verified_far1"][0] < 1, "a rate that could differ"


def test_chance_is_that_of_the_question(both):
    found, _, _ = both
    chances = {"embedder_acc1": 1 / PEOPLE, "verified_far1": 0.01, "verified_far01": 0.001, "gallery_rank": 251}
    table = found.table.set_index("metric")
    assert table["chance"].to_dict() == {metric: chances[metric] for metric in table.index}


def test_intervals_and_people_are_of_the_same_hits(both):
    found, columns, strangers = both
    if strangers < 50:
        assert found.verified == {} and found.why_not == few_strangers_note(30) and "50 public images" in found.why_not
        return
    shares = np.stack([frame.sort_values("class")["verified_far1"] for frame in columns["per_class"]])
    assert found.verified == pytest.approx(dict(enumerate(shares.mean(axis=0).tolist())))
    row = found.table.set_index("metric").loc["verified_far1"]
    ends = rate_interval(shares, images=2 * 12)
    assert (row["low"], row["high"]) == pytest.approx((ends.low, ends.high)) and found.why_not == ""


def test_a_judge_without_features_verifies_nothing_and_says_why():
    tally = Tally.of([torch.tensor([True, False])], torch.tensor([0, 1]))
    found = compare_with_references(
        by=None,
        metric="attack_acc1",
        ceiling=0.9,
        strongest=tally,
        control=tally,
        drawn=[],
        drawn_by_control=[],
        attacker=SimpleNamespace(),
        crop=None,
        classes=2,
    )
    assert (found.why_not, found.verified) == (CLOSED_SET_NOTE, {})
    assert found.table["metric"].tolist() == ["attack_acc1"] and found.table["reach"].isna().all()
