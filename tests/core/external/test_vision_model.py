"""Asking a vision-language model: what is sent and where, what its words mean, what is asked once."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import asking as posting
from smoothsweep.core.external.asking import ADDRESS, TOKEN, KeptAnswers, VisionModel, named_address
from smoothsweep.tasks.vision_judge import EDGE, GAP, HEAD, SIDE, question_picture
from tests.made_vision_model import serving


def flat(*colour):
    return torch.tensor(colour, dtype=torch.uint8)[:, None, None].expand(3, 16, 16)


def picture(shade=0):
    return question_picture(flat(shade, 0, 0), torch.stack([flat(0, shade, 10 * place) for place in range(4)]))


@pytest.fixture
def asking(tmp_path, monkeypatch):
    """(what the model says, budget) -> an asker and its server's record."""
    monkeypatch.setattr(posting, "LONGEST_PAUSE_S", 0.01)
    kept, servers = KeptAnswers(tmp_path / "kept.sqlite"), []

    def begin(says, questions=100):
        kept.agree(queries=questions, per_second=1e4)
        server = serving(says)
        servers.append(server)
        made = server.__enter__()
        return VisionModel(made.url, "seer", kept), made

    yield begin
    for server in servers:
        server.__exit__(None, None, None)


def test_the_picture_has_the_image_on_the_left_and_the_references_on_the_right():
    shown = np.asarray(Image.open(io.BytesIO(picture(200))))
    top, right = EDGE + HEAD, EDGE + SIDE + GAP
    assert shown[top + (SIDE + EDGE) // 2 + 5, EDGE + 5].tolist() == [200, 0, 0]
    corners = [(top + row * (SIDE + EDGE), right + column * (SIDE + EDGE)) for row in (0, 1) for column in (0, 1)]
    assert [shown[y + 5, x + 5].tolist() for y, x in corners] == [[0, 200, 10 * place] for place in range(4)]
    assert shown[top + 5, right - 5].tolist() == [255, 255, 255] and (shown[:top, :right] < 100).any(), "no letter"


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("yes", True),
        ("Yes.", True),
        ("**No**, it does not", False),
        ("NO", False),
        ("", None),
        (None, None),
        ("I cannot identify people.", None),
        ("yesterday", None),
        ("not sure", None),
    ],
)
def test_what_is_neither_yes_nor_no_is_neither(asking, said, meant):
    asker, _ = asking(lambda pixels: said)
    assert asker.same_person(picture()) is meant


def test_what_is_sent_and_that_nothing_is_asked_twice(asking, monkeypatch):
    monkeypatch.setenv(TOKEN, "secret")
    asker, server = asking(lambda pixels: "yes")
    assert asker.same_person(picture()) and asker.same_person(picture()) and asker.same_person(picture(9))
    [(path, model, temperature, text, pixels), _] = server.asked
    assert (path, model, temperature) == ("/v1/chat/completions", "seer", 0) and "yes or no" in text
    assert np.array_equal(pixels, np.asarray(Image.open(io.BytesIO(picture()))))
    assert server.tokens == ["Bearer secret"] * 2


def test_the_budget_ends_it_and_another_form_of_answer_is_one_line(asking):
    asker, server = asking(lambda pixels: "no", questions=2)
    server.script = [(503, "busy")]
    assert asker.same_person(picture()) is False  # and that took two
    with pytest.raises(InputError, match="expected no more than 2 queries"):
        asker.same_person(picture(1))
    asker, server = asking(lambda pixels: "no")
    many = '{"choices": [{"message": {"content": "yes"}}]}' + " " * 2**22
    forms = ('{"choices": []}', '{"choices": [{"message": {"content": 3}}]}', '{"choices": [{"message": null}]}')
    for body in ("<html>", "", "3", "[" * 10**5, many, *forms):
        server.script = [(200, body)]
        with pytest.raises(InputError, match=r'/v1/chat/completions: expected \{"choices"'):
            asker.same_person(picture(2))
    assert asker.same_person(picture(2)) is False, "nothing of these was kept"


def test_without_an_address_there_is_none(monkeypatch):
    monkeypatch.delenv(ADDRESS, raising=False)
    assert named_address() is None
    monkeypatch.setenv(ADDRESS, "https://host/v1/")
    assert named_address() == "https://host/v1"
