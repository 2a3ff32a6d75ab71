"""What is sent to an endpoint, and where: counted as often as it left, kept once answered, by no way but ours."""

import json
from unittest.mock import patch

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import posting
from smoothsweep.core.external.address import TOKEN
from smoothsweep.core.external.endpoint import Endpoint
from smoothsweep.core.external.vision_model import VisionModel
from tests.asked_endpoint import FAST, http
from tests.made_raw_endpoint import raw_server


def test_every_attempt_counts_against_the_budget(server, kept):
    """Four are allowed, five attempts wanted: the fifth is not made, and a later picture is not asked."""
    kept.agree(queries=4, per_second=1e6)
    with patch.multiple(posting, **{**FAST, "ATTEMPTS": 5}):
        endpoint = Endpoint(server.url, kept, token_env=None, answers="logits")
        server.play, server.connections = [[("send", http(status="503 Busy")), ("close",)]], 0
        for shade in (0.1, 0.9):
            with pytest.raises(InputError, match="expected no more than 4 queries, got one after all were spent"):
                endpoint(torch.full((1, 3, 4, 4), shade))
            assert server.connections == kept.asked == 4


def test_busy_twice_then_an_answer_is_three_queries(server, kept):
    busy, stop = http(status="503 Busy"), ("close",)
    with patch.multiple(posting, **{**FAST, "ATTEMPTS": 5}):
        endpoint = Endpoint(server.url, kept, token_env=None, answers="labels")
        server.play, server.connections = [[("send", busy), stop], [("send", busy), stop], [("send", http()), stop]], 0
        assert endpoint(torch.zeros(1, 3, 4, 4)).tolist() == [1] and server.connections == kept.asked == 3


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "http://no-such-host.invalid/x", "https://127.0.0.1:{port}/x"])
def test_what_never_left_is_not_counted(server, kept, url):
    """Nobody listens, no such name, no TLS: the picture is still here, however often it was tried."""
    server.play = [[("unread",), ("send", b"no TLS here"), ("close",)]]
    with patch.multiple(posting, **FAST), pytest.raises(InputError, match="expected an answer within 2 attempts, got "):
        Endpoint(url.format(port=server.port), kept, token_env=None, answers="logits")(torch.zeros(1, 3, 4, 4))
    assert kept.asked == 0


def test_what_was_answered_before_a_fault_is_kept(server, kept):
    images = torch.linspace(0, 1, 4)[:, None, None, None].expand(-1, 3, 4, 4)
    good, bad = [("send", http()), ("close",)], [("send", http()[:-3]), ("close",)]
    with patch.multiple(posting, **FAST):
        endpoint = Endpoint(server.url, kept, token_env=None, answers="logits")
        server.play, server.connections = [good, good, bad], 0
        with pytest.raises(InputError, match="what was answered is kept"):
            endpoint(images)
        server.play, server.connections = [good], 0
        assert endpoint(images).shape == (4, 3) and server.connections == 2, "two of them were known"


def test_a_vision_model_is_held_to_the_same(server, kept):
    said = json.dumps({"choices": [{"message": {"content": "yes"}}]}).encode()
    with patch.multiple(posting, **FAST):
        asker = VisionModel(f"http://127.0.0.1:{server.port}/v1", "seer", kept)
        server.play, server.connections = (
            [[("send", http(said)[:-3]), ("close",)], [("send", http(said)), ("close",)]],
            0,
        )
        assert asker.same_person(b"one") is True and server.connections == kept.asked == 2
        server.play, server.connections = [[("trickle", http(said), 0.05), ("close",)]], 0
        with pytest.raises(InputError, match=r"no complete answer within 0\.5 s"):
            asker.same_person(b"two")


@pytest.mark.parametrize("token", ["geh\u00e4im", "two words", "line\nbreak", "X-Other: 1\r\nY: 2", "\u0661", "tab\t"])
def test_a_token_that_no_header_can_hold_is_one_line_that_does_not_show_it(kept, monkeypatch, token):
    monkeypatch.setenv("MY_TOKEN", token)
    monkeypatch.setenv(TOKEN, token)
    for open_one in (
        lambda: Endpoint("http://127.0.0.1:1/", kept, token_env="MY_TOKEN", answers="logits"),
        lambda: VisionModel("http://127.0.0.1:1/v1", "seer", kept),
    ):
        with pytest.raises(InputError, match="expected a token of printable ASCII characters") as refused:
            open_one()
        assert token not in str(refused.value)


def test_neither_a_proxy_nor_a_netrc_of_the_environment_is_followed(server, kept, monkeypatch, tmp_path):
    """The proxy would be asked instead of the server; a .netrc would take the place of the bearer token."""
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    netrc.chmod(0o600)
    for name, value in {"HOME": str(tmp_path), "NETRC": str(netrc), "MY_TOKEN": "ours", TOKEN: "ours"}.items():
        monkeypatch.setenv(name, value)
    with raw_server() as proxy, patch.multiple(posting, **FAST):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        server.play, server.connections, server.requests[:] = [[("send", http()), ("close",)]], 0, []
        Endpoint(server.url, kept, token_env="MY_TOKEN", answers="logits")(torch.zeros(1, 3, 4, 4))
        with pytest.raises(InputError, match="expected"):  # another form of answer, but asked
            VisionModel(f"http://127.0.0.1:{server.port}/v1", "seer", kept).same_person(b"one")
        assert proxy.connections == 0 and len(server.requests) == 2
    for request in server.requests:
        assert b"Authorization: Bearer ours\r\n" in request and request.lower().count(b"authorization") == 1
