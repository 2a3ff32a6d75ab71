"""What an endpoint is sent of a picture, and what may be an answer."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import endpoint
from smoothsweep.core.external.answers import KeptAnswers
from smoothsweep.core.external.endpoint import Endpoint


@pytest.fixture
def asked(tmp_path, monkeypatch):
    """(images, answers=, bodies) -> what the endpoint makes of these bodies, none of them sent; `.sent`: the posts."""
    kept, sent = KeptAnswers(tmp_path / "kept.sqlite"), []
    kept.agree(queries=100, per_second=1e9)

    def ask(images, *bodies, answers="logits"):
        left = list(bodies)

        def posted(url, held, body, headers):
            sent.append((url, held, np.asarray(Image.open(io.BytesIO(body))), headers))
            return left.pop(0)

        monkeypatch.setattr(endpoint, "posted", posted)
        return Endpoint("http://host/x", kept, token_env=None, answers=answers)(images)

    ask.sent, ask.kept = sent, kept
    return ask


def test_pixels_are_rounded_and_clamped_and_lie_as_pictures_do(asked):
    """Two pictures of two rows and three columns: [3, H, W] in [0, 1] -> [H, W, 3] in 0 to 255."""
    images = torch.linspace(-0.2, 1.2, 2 * 3 * 2 * 3).reshape(2, 3, 2, 3)
    found = asked(images.requires_grad_(True), b'{"scores": [1, 2.5]}', b'{"scores": [3, -4], "label": 1}')
    assert found.tolist() == [[1.0, 2.5], [3.0, -4.0]] and found.dtype == torch.float32 and not found.requires_grad
    for image, (url, held, pixels, headers) in zip(images.detach(), asked.sent, strict=True):
        wanted = [
            [[round(min(1, max(0, float(image[c, y, x]))) * 255) for c in range(3)] for x in range(3)] for y in range(2)
        ]
        assert pixels.tolist() == wanted and (url, held) == ("http://host/x", asked.kept)
        assert headers == {"Content-Type": "image/png", "Accept": "application/json"}


def test_a_picture_of_another_shape_or_asked_otherwise_is_another_question(asked):
    flat = torch.zeros(1, 3, 2, 8)
    asked(flat, b'{"scores": [1]}')
    assert asked(flat).tolist() == [[1.0]] and asked(flat, answers="probabilities").tolist() == [[1.0]]
    assert asked(flat.reshape(1, 3, 4, 4), b'{"scores": [2]}').tolist() == [[2.0]]
    labels = asked(torch.zeros(2, 3, 2, 8), b'{"label": 7}', answers="labels")
    assert labels.tolist() == [7, 7] and labels.dtype == torch.int64 and len(asked.sent) == 3


@pytest.mark.parametrize(
    ("label", "fine"),
    [
        ("0", True),
        ("2147483647", True),
        ("2147483648", False),
        ("-1", False),
        ("1.0", False),
        ("true", False),
        ('"1"', False),
        ("null", False),
        ("[1]", False),
    ],
)
def test_what_may_be_a_label(asked, label, fine):
    body = f'{{"label": {label}, "scores": [1]}}'.encode()
    if fine:
        assert asked(torch.zeros(1, 3, 2, 2), body, answers="labels").tolist() == [int(label)]
        return
    with pytest.raises(InputError, match=r'^http://host/x: expected \{"label": 3\}, got '):
        asked(torch.zeros(1, 3, 2, 2), body, answers="labels")
    assert asked(torch.zeros(1, 3, 2, 2), b'{"label": 5}', answers="labels").tolist() == [5], "it was not kept"


@pytest.mark.parametrize(
    ("score", "fine"),
    [
        ("3.4e38", True),
        ("-3.4e38", True),
        ("3.5e38", False),
        ("-3.5e38", False),
        ("0", True),
        ("false", False),
        ("null", False),
        ("Infinity", False),
        ("-Infinity", False),
        ("NaN", False),
        ("1" + "0" * 400, False),
    ],
)
def test_what_may_be_a_score_among_others(asked, score, fine):
    body = f'{{"scores": [0.5, {score}, 1]}}'.encode()
    if fine:
        assert asked(torch.zeros(1, 3, 2, 2), body).tolist() == torch.tensor([[0.5, float(score), 1.0]]).tolist()
        return
    with pytest.raises(InputError, match=r'^http://host/x: expected \{"scores": \[0.1, ...\]\}, got '):
        asked(torch.zeros(1, 3, 2, 2), body)


def test_an_answer_may_have_as_many_bytes_as_are_read_and_no_more(asked):
    body = b'{"scores": [1, 2]}'
    assert asked(torch.zeros(1, 3, 2, 2), body.ljust(4 * 2**20)).tolist() == [[1.0, 2.0]]
    with pytest.raises(InputError, match="expected"):
        asked(torch.ones(1, 3, 2, 2), body.ljust(4 * 2**20 + 1))
