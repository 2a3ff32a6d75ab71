"""Endpoints: every picture asked once, no faster and no oftener than agreed; busy servers, wrong answers."""

import json
import tempfile
import threading
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import posting
from smoothsweep.core.external.address import ADDRESS, named_address
from smoothsweep.core.external.answers import KeptAnswers
from smoothsweep.core.external.endpoint import describe_endpoint, open_endpoint
from tests.made_endpoint import serving

CPU = torch.device("cpu")


@pytest.fixture
def server():
    with serving(lambda pixels: (pixels.mean((0, 1)) / 255).tolist()) as made:
        yield made


@pytest.fixture
def ask(server, tmp_path, monkeypatch):
    """(images, answers=, queries=, per_second=, token_env=) -> what the endpoint says, opened anew each time."""
    monkeypatch.setattr(posting, "LONGEST_PAUSE_S", 0.01)
    kept = KeptAnswers(tmp_path / "kept.sqlite")

    def asked(images, *, answers="logits", queries=100, per_second=1e4, token_env=None):
        kept.agree(queries=queries, per_second=per_second)
        path = tmp_path / "endpoint.json"
        path.write_text(describe_endpoint(server.url, kept.path, token_env=token_env))
        opened = open_endpoint(path, {"answers": answers}, CPU)
        assert opened.own_input and not opened.differentiable
        return opened.answer(images)

    asked.kept = kept
    return asked


def colours(count):
    """Images of one colour each, all different."""
    shades = torch.linspace(0, 1, count)
    return torch.stack([shades, 1 - shades, shades / 2], 1)[:, :, None, None].expand(-1, -1, 4, 4)


def test_scores_and_labels_are_those_of_the_pictures_sent(ask, server):
    images = colours(3)
    torch.testing.assert_close(ask(images), images.mean((2, 3)), atol=1 / 255, rtol=0)
    assert torch.equal(ask(images, answers="labels"), images.mean((2, 3)).argmax(1))
    assert server.headers[0]["Content-Type"] == "image/png"


def test_no_picture_is_asked_twice_also_by_whoever_opens_it_later(ask, server):
    first = ask(colours(4))
    assert torch.equal(ask(colours(4)), first) and len(server.seen) == 4 == ask.kept.asked


def test_the_budget_is_of_all_that_was_ever_sent_and_more_goes_on_where_it_was(ask, server):
    with pytest.raises(InputError, match="expected no more than 3 queries, got one after all were spent"):
        ask(colours(5), queries=3)
    assert len(server.seen) == 3
    assert len(ask(colours(5), queries=5)) == 5 and len(server.seen) == 5


def test_it_is_asked_no_faster_than_agreed(ask):
    started = time.monotonic()
    ask(colours(4), per_second=20)
    assert time.monotonic() - started >= 3 / 20


def test_a_busy_server_is_asked_again_and_a_broken_one_given_up_on(ask, server):
    server.script = [(503, {}, ""), (429, {"Retry-After": "1"}, "")]
    assert len(ask(colours(1))) == 1 and len(server.seen) == 3
    server.script = [(500, {}, "")] * posting.ATTEMPTS
    with pytest.raises(InputError, match="expected an answer within 5 attempts, got status 500; what was answered"):
        ask(colours(2))


def test_redirects_are_not_followed(ask, server):
    server.script = [(307, {"Location": "http://127.0.0.1:1/elsewhere"}, "")]
    with pytest.raises(InputError, match="expected an answer with status 200, got status 307"):
        ask(colours(1))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "nothing",
        "[]",
        '{"scores": []}',
        '{"scores": ["a"]}',
        '{"scores": [NaN, 1]}',
        '{"scores": 3}',
        '{"label": 1}',
        '{"scores": [true]}',
    ],
)
def test_an_answer_of_another_form_is_one_line_and_not_kept(ask, server, body):
    server.script = [(200, {}, body)]
    with pytest.raises(InputError, match=r'expected \{"scores": \[0.1, ...\]\}, got'):
        ask(colours(1))
    assert len(ask(colours(1))) == 1


def test_as_many_scores_each_time(ask, server):
    server.script = [(200, {}, '{"scores": [1, 2]}')]
    with pytest.raises(InputError, match="expected as many scores each time"):
        ask(colours(2))


def test_the_token_comes_from_the_environment_and_is_written_nowhere(ask, server, monkeypatch, tmp_path):
    with pytest.raises(InputError, match="expected its token in the environment variable MY_TOKEN, got none"):
        ask(colours(1), token_env="MY_TOKEN")
    monkeypatch.setenv("MY_TOKEN", "tell-nobody")
    ask(colours(1), token_env="MY_TOKEN")
    assert server.headers[-1]["Authorization"] == "Bearer tell-nobody"
    assert not [path for path in tmp_path.iterdir() if b"tell-nobody" in path.read_bytes()]


SECRET = st.text(alphabet="QZXJ", min_size=3, max_size=12)
NAME = st.text(alphabet="abcdefgh_-.0123456789", min_size=1, max_size=10)


@given(
    secret=SECRET,
    name=NAME,
    form=st.sampled_from(
        [
            "http://{s}@host/a",
            "https://me:{s}@host/a",
            "https://:{s}@host",
            "https://host/a?{n}={s}",
            "https://host?{s}",
            "https://host/a?x=1&{n}={s}",
            "https://host/a#{n}={s}",
            "https://host/#{s}",
            "https://host/a?x=1#/{s}",
            "http://{s}/@host",
            "http://host\\@{s}",
            "http://host /{s}",
            "http://host:99999/?{s}",
            "ftp://host/a?{s}",
            "http://h/\t?{s}",
            "HTTP://host/?{s}",
        ]
    ),
)
def test_a_url_that_may_hold_a_secret_is_refused_shown_without_it_and_written_nowhere(secret, name, form):
    url = form.format(s=secret, n=name)
    with tempfile.TemporaryDirectory() as folder:
        with pytest.raises(InputError, match=r"expected http.* without user, query or fragment") as refused:
            describe_endpoint(url, Path(folder) / "kept.sqlite", token_env=None)
        card = Path(folder) / "endpoint.json"
        card.write_text(json.dumps({"url": url, "answers": str(card), "token_env": None}))
        with pytest.raises(InputError, match="without user, query or fragment"):  # one made before, or by hand
            open_endpoint(card, {"answers": "logits"}, CPU)
        with pytest.MonkeyPatch.context() as patched, pytest.raises(InputError, match=ADDRESS) as asked:
            patched.setenv(ADDRESS, url)
            named_address()
    shown = str(refused.value) if "?" in form or "#" in form or form.startswith("http://{s}@") else ""
    assert not set("QZXJ") & set(shown) and not set("QZXJ") & set(str(asked.value))


@pytest.mark.parametrize(
    "url",
    [
        "http://host",
        "https://host/",
        "http://127.0.0.1:8000/classify",
        "https://[::1]:8000/v1/x",
        "https://a-b.example.org/v1/models/resnet:predict",
        "http://under_score/a%20b/~c",
    ],
)
def test_a_plain_url_is_none_of_these(url, tmp_path):
    assert json.loads(describe_endpoint(url, tmp_path / "kept", token_env=None))["url"] == url


def test_nobody_there_is_one_line(ask, server):
    server.url = "http://127.0.0.1:1/nothing"
    with pytest.raises(InputError, match="got ConnectionRefusedError: Connection refused"):
        ask(colours(1))


def test_processes_share_pace_and_budget(ask):
    """Threads with connections of their own stand in for processes: the file is what they share."""
    ask.kept.agree(queries=10, per_second=1e4)
    refused = []

    def take():
        for _ in range(4):
            try:
                KeptAnswers(ask.kept.path).take_turn("here")
            except InputError:
                refused.append(1)

    threads = [threading.Thread(target=take) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert ask.kept.asked == 10 and len(refused) == 6
