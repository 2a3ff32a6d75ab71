"""PLG-MI's pseudo-labels: which images a class gets, and what happens to equal confidences."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from smoothsweep.core.attacks.plg.labels import ask, make_labels, top_n
from smoothsweep.core.attacks.shared.base import AttackInputs
from smoothsweep.core.data.celeba import central_face
from smoothsweep.core.data.images import to_unit
from smoothsweep.core.data.layouts import fit_square
from smoothsweep.core.seeds import generator
from tests.lowres import pooled
from tests.plg import golden

CLASSES = 5


class Scores:
    """A target that is surest of the class that an image's brightness names."""

    num_classes, image_size = CLASSES, 8

    def scores(self, images):
        bright = images.mean((1, 2, 3))
        return (-((bright[:, None] - torch.linspace(-1, 1, CLASSES)) ** 2) * 20).softmax(1)


class StandIn:
    """The stand-in target 0 on images in [-1, 1]."""

    num_classes, image_size = 10, 64

    def scores(self, images):
        features = ((pooled((images + 1) / 2) - 0.5) @ golden("si_T0_A")).tanh()
        return (features @ golden("si_T0_B")).softmax(1)


def test_from_the_pictures_to_the_official_selection():
    """Aligned faces of constant blocks, cut, reduced and asked about as any public pictures are."""
    blocks = golden("plg_topn_blocks_uint8").numpy().repeat(25, 1).repeat(23, 2)[:, :218, :178]
    faces = [fit_square(central_face(row, Image.fromarray(one)), 64, "shorter_side") for row, one in enumerate(blocks)]
    public = torch.from_numpy(np.stack(faces)).permute(0, 3, 1, 2).contiguous()
    scores = ask(StandIn(), public)
    torch.testing.assert_close(scores, golden("plg_topn_prob"), rtol=0, atol=1e-5)
    names = [f"{number:06d}.jpg" for number in golden("plg_topn_file_numbers").tolist()]
    assert torch.equal(top_n(scores, 4, "paper", paths=names), golden("plg_topn_selected"))


def test_the_official_selection_by_ascending_confidence():
    names = [f"{number:06d}.jpg" for number in golden("plg_topn_file_numbers").tolist()]
    found = top_n(golden("plg_topn_prob"), 4, "paper", paths=names)
    assert torch.equal(found, golden("plg_topn_selected"))
    confidence = golden("plg_topn_prob").T.gather(1, found).double()
    torch.testing.assert_close(confidence.round(decimals=4), golden("plg_topn_name_prob"), rtol=0, atol=1e-6)


def test_the_official_rule_for_ties():
    names = [str(name) for name in golden("plg_ties_names")]
    found = top_n(golden("plg_ties_logits").softmax(1), 5, "paper", paths=names)
    assert torch.equal(found, golden("plg_ties_selected"))


def test_under_negative_smoothing_most_confidences_are_zero_and_paper_takes_the_last_images():
    scores = torch.zeros(9, 2)
    scores[4, 0] = 1.0
    assert top_n(scores, 3, "paper").tolist() == [[7, 8, 4], [6, 7, 8]]
    assert top_n(scores, 3, "clean").tolist() == [[1, 0, 4], [2, 1, 0]]


@settings(max_examples=25)
@given(rows=st.integers(1, 12), n=st.integers(1, 12), levels=st.integers(1, 4), seed=st.integers(0, 99))
def test_both_protocols_choose_scores_that_nothing_left_out_exceeds(rows, n, levels, seed):
    scores = torch.randint(levels, (rows, 3), generator=generator(seed)).float()
    n = min(n, rows)
    for protocol in ("paper", "clean"):
        found = top_n(scores, n, protocol)
        assert found.shape == (3, n) and found.dtype == torch.int64
        for column, chosen in zip(scores.T, found, strict=True):
            assert len(chosen.unique()) == n
            assert torch.equal(column[chosen], column.sort().values[-n:])


def test_an_image_may_serve_several_classes_and_is_counted_once():
    public = torch.randint(256, (6, 3, 16, 16), generator=generator(0), dtype=torch.uint8)
    made = make_labels({"top_n": 4}, AttackInputs(protocol="clean", public=public), Scores(), None)
    index, confidence = made.tensors["index"], made.tensors["confidence"]
    assert index.shape == confidence.shape == (CLASSES, 4) and (confidence.diff(dim=1) >= 0).all()
    assert made.facts["images_labelled"] == len(index.unique()) <= 6 < index.numel()
    assert made.facts["least_confidence"] == confidence.min()


def test_public_images_of_another_size_are_reduced_to_the_target_s():
    flat = torch.linspace(0, 255, 10).round().to(torch.uint8)[:, None, None, None]
    large, small = flat.expand(-1, 3, 24, 24), flat.expand(-1, 3, 8, 8)
    found = [
        make_labels({"top_n": 2}, AttackInputs(protocol="clean", public=images.contiguous()), Scores(), None).tensors
        for images in (large, small)
    ]
    assert torch.equal(found[0]["index"], found[1]["index"])
    best = Scores().scores(to_unit(small)).argmax(0)
    assert torch.equal(found[0]["index"][:, -1], best)
