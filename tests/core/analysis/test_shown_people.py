"""Public images that show the private people in other photographs: counted against what false accepts explain."""

import pandas as pd
import pytest
import torch

from smoothsweep.core.analysis.shown_people import FALSE_ACCEPTS, find_shown_people, people_shown

NAMES = ("ann", "ben", "cid", "dora", "eve", "fay")


def photographs(people, each, *, noise=0.6, seed=0):
    """Features [people * each, 64] around a centre for each person, and whose they are."""
    centres = torch.randn(len(NAMES), 64, generator=torch.Generator().manual_seed(9))
    labels = torch.tensor(people).repeat_interleave(each)
    return centres[labels] + noise * torch.randn(len(labels), 64, generator=torch.Generator().manual_seed(seed)), labels


def strangers(count, seed=1):
    return torch.randn(count, 64, generator=torch.Generator().manual_seed(seed))


def shown(public, *, noise=0.6):
    private, labels = photographs(range(6), 10, noise=noise)
    return people_shown(private, labels, public, NAMES, [f"{row}.png" for row in range(len(public))])


def test_the_people_on_public_images_are_named_with_the_images():
    found = shown(torch.cat([strangers(60), photographs([1, 4], 5, seed=3)[0]]))
    assert found.images["ben"] == [f"{i}.png" for i in range(60, 65)]
    assert found.images["eve"] == [f"{i}.png" for i in range(65, 70)]
    assert sum(map(len, found.images.values())) <= 11, "more than one stranger"
    assert (
        found.is_surprising and "ben (60.png" in found.lines("E")[0] and "ben" not in found.lines("E", named=False)[0]
    )


@pytest.mark.parametrize("seed", range(1, 5))
def test_strangers_are_accepted_as_seldom_as_is_said(seed):
    found = shown(strangers(4000, seed))
    accepted = sum(map(len, found.images.values()))
    assert accepted <= 3 * FALSE_ACCEPTS * 4000 and not found.is_surprising and found.recognised > 0.9


def test_an_embedder_that_does_not_tell_the_people_apart_says_nothing():
    found = shown(strangers(50), noise=9.0)
    assert found.recognised < 0.5 and not found.is_surprising and "copies alone" in found.lines("E")[0]


def test_real_faces_in_other_photographs(repository, tmp_path):
    """17 of 77 public images, as in a real case, show six of the private people."""
    shared = repository.parent / "shared" / "data"
    if not (shared / "lfw-faces" / "faces.parquet").is_file():
        pytest.skip("no real faces beside the repository")
    faces = pd.read_parquet(shared / "lfw-faces" / "faces.parquet")
    others = pd.read_parquet(shared / "public-faces" / "faces.parquet").iloc[:60]
    people = [rows for _, rows in faces.groupby("label")][10:16]
    private = pd.concat([rows.iloc[:6] for rows in people])[["image", "label", "identity"]]
    again = pd.concat([rows.iloc[6:9] for rows in people]).iloc[:17][["image"]]
    private.to_parquet(tmp_path / "private.parquet")
    pd.concat([others[["image"]], again]).to_parquet(tmp_path / "public.parquet")
    judge = {"name": "mobilefacenet_a", "weights": str(shared / "weights" / "mobilefacenet_a.safetensors")}
    found = find_shown_people(tmp_path / "private.parquet", tmp_path / "public.parquet", judge)
    rows = {int(name.split()[1]) for images in found.images.values() for name in images}
    assert found.is_surprising and len(rows & set(range(60, 77))) >= 12 and len(rows & set(range(60))) <= 1
