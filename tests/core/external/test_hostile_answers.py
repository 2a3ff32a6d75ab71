"""Whatever an endpoint answers, and however slowly: a valid answer or one line, in time, and the right count."""

import gzip
import json
import time
import zlib
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import posting, wire
from smoothsweep.core.external.address import TOKEN
from smoothsweep.core.external.answers import KeptAnswers
from smoothsweep.core.external.endpoint import Endpoint
from smoothsweep.core.external.vision_model import VisionModel
from tests.made_raw_endpoint import raw_server

TIMEOUT_S, ATTEMPTS, GRACE_S = 0.5, 2, 3.0
GOOD = b'{"scores": [0.25, 0.5, 0.25], "label": 1}'
FAST = {"TIMEOUT_S": TIMEOUT_S, "ATTEMPTS": ATTEMPTS, "LONGEST_PAUSE_S": 0.001}


@pytest.fixture(scope="module")
def server():
    with raw_server() as made:
        yield made


@pytest.fixture
def kept(tmp_path):
    found = KeptAnswers(tmp_path / "kept.sqlite")
    found.agree(queries=1000, per_second=1e6)
    return found


def http(body=GOOD, status="200 OK", headers=(), length=True):
    lines = [f"HTTP/1.1 {status}".encode(), *([b"Content-Length: %d" % len(body)] if length else []), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def ask(server, kept, answers="logits", steps=None, **headers):
    """(what came, or the line that was said; seconds), with short waits."""
    if steps is not None:
        server.play, server.connections = [steps], 0
    before, started = kept.asked, time.monotonic()
    with patch.multiple(posting, **FAST):
        try:
            shade = float(np.random.default_rng(time.monotonic_ns()).random())  # never asked before
            found = Endpoint(server.url, kept, token_env=None, answers=answers)(torch.full((1, 3, 4, 4), shade))
        except InputError as error:
            found = str(error)
    counted, unread = kept.asked - before, ("unread",) in (steps or ())
    # A server that resets a connection without reading may do so before anything has left.
    assert counted <= server.connections if unread else counted == server.connections, "what left is counted"
    return found, time.monotonic() - started


def numbers():
    huge = st.sampled_from(["1" + "0" * 400, "-" + "9" * 5000, "1e400", "1e39", "-1e308", "NaN", "-Infinity", "1e-999"])
    return st.one_of(
        huge, st.integers().map(str), st.floats().map(json.dumps), st.sampled_from(["true", "null", '"1"', "[]"])
    )


BODIES = st.one_of(
    st.lists(numbers(), max_size=5).map(lambda some: f'{{"scores": [{", ".join(some)}]}}'.encode()),
    numbers().map(lambda one: f'{{"label": {one}}}'.encode()),
    st.binary(max_size=200),
    st.just(GOOD),
    st.sampled_from([b"[" * 100_000, b'{"scores": ' * 50_000, b"\xff\xfe{", b"\x00" * 99]),
)
STATUSES = st.sampled_from(
    [
        "200 OK",
        "200",
        "204 No Content",
        "301 Moved",
        "404 Not Found",
        "429 Slow",
        "503 Busy",
        "100 Continue",
        "102 Processing",
        "200 \x1b[31mred",
        "999 What",
        "-1 No",
        "2\u0660\u0660 OK",
        "abc",
        "",
        "00200 OK",
    ]
)
HEADERS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"Retry-After: \xb2",
                b"Retry-After: -5",
                b"Retry-After: " + b"9" * 5000,
                b"Retry-After: soon",
                b"Content-Length: 3",
                b"Content-Length: 99999999999",
                b"Content-Length: -1",
                b"Content-Length: \xb2",
                b"Content-Length: " + b"9" * 5000,
                b"Transfer-Encoding: chunked",
                b"Transfer-Encoding: gzip, chunked",
                b"Content-Encoding: gzip",
                b"Content-Encoding: deflate",
                b"Content-Encoding: br",
                b"Location: http://127.0.0.1:1",
                b"X: " + b"y" * 70_000,
                b"no colon",
                b": no name",
                b"\x00: \xff",
                b"Content-Type: text/html; charset=\xff",
            ]
        ),
        st.binary(max_size=40).filter(lambda line: b"\n" not in line),
    ),
    max_size=4,
)
CHUNKS = st.sampled_from(
    [
        b"29\r\n" + GOOD + b"\r\n0\r\n\r\n",
        b"29\r\n" + GOOD,
        b"-1\r\n" + GOOD * 9,
        b"-5\r\n" + GOOD,
        b"zz\r\n",
        b"\xb2\r\n",
        b"",
        b"f" * 40 + b"\r\n" + GOOD,
        b"29;" + b"x" * 70_000 + b"\r\n" + GOOD,
        b"0\r\n" + b"a: b\r\n" * 500 + b"\r\n",
    ]
)
PACKINGS = st.sampled_from(
    [
        gzip.compress,
        zlib.compress,
        lambda body: gzip.compress(body)[:-9],
        lambda body: b"\x1f\x8b" + body,
        lambda body: gzip.compress(b"0" * 2**25),
        lambda body: body,
    ]
)
ENDS = st.sampled_from([("close",), ("close",), ("reset",), ("stall",)])


@st.composite
def plays(draw):
    """What a server does: an answer of any status, headers and body, cut, delayed or repeated; and how it ends."""
    body = draw(st.one_of(BODIES, CHUNKS, BODIES.flatmap(lambda one: PACKINGS.map(lambda pack: pack(one)))))
    status, headers = draw(STATUSES), draw(HEADERS)
    whole = b"\r\n".join(
        [f"HTTP/1.1 {status}".encode(), *headers, *([b"Content-Length: %d" % len(body)] if draw(st.booleans()) else [])]
    )
    whole = draw(
        st.sampled_from([whole + b"\r\n\r\n" + body, whole + b"\n\n" + body, body, b"", whole * 3, whole[3:] + body])
    )
    cut = draw(st.integers(0, len(whole)))
    how = draw(st.sampled_from(["whole", "cut", "paused", "trickled", "unread", "repeated"]))
    steps = {
        "whole": [("send", whole)],
        "cut": [("send", whole[:cut])],
        "trickled": [("trickle", whole[:60], 0.05)],
        "paused": [("send", whole[:cut]), ("wait", 0.1), ("send", whole[cut:])],
        "unread": [("unread",), ("send", whole)],
        "repeated": [("send", whole * 50)],
    }[how]
    return [*steps, draw(ENDS)]


@given(steps=plays(), answers=st.sampled_from(["logits", "probabilities", "labels"]))
def test_a_valid_answer_or_one_line_in_time_and_the_right_count(server, tmp_path_factory, steps, answers):
    kept = KeptAnswers(tmp_path_factory.mktemp("kept") / "kept.sqlite")
    kept.agree(queries=1000, per_second=1e6)
    found, seconds = ask(server, kept, answers, steps)
    assert seconds < ATTEMPTS * TIMEOUT_S + GRACE_S and 1 <= server.connections <= ATTEMPTS
    if isinstance(found, str):
        assert found.startswith(f"{server.url}: expected ") and found.isprintable() and len(found) < 700
    elif answers == "labels":
        assert found.dtype == torch.int64 and 0 <= int(found) < 2**31
    else:
        assert found.dtype == torch.float32 and bool(torch.isfinite(found).all()) and found.shape[1] >= 1
        assert answers == "logits" or (found.min() > -0.02 and abs(found.sum() - 1) < 0.05)


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([("send", http()[:-5]), ("close",)], "an answer that is damaged or no HTTP (IncompleteRead)"),
        ([("send", http(length=False, headers=[b"Transfer-Encoding: chunked"])), ("close",)], "damaged or no HTTP"),
        (
            [
                ("send", http(length=False, headers=[b"Transfer-Encoding: chunked"], body=b"-1\r\n" + b"0" * 2**23)),
                ("close",),
            ],
            "damaged",
        ),
        (
            [("send", http(b"\x1f\x8bnothing", headers=[b"Content-Encoding: gzip"])), ("close",)],
            "damaged or no HTTP (error)",
        ),
        (
            [("send", http(gzip.compress(GOOD)[:-9], headers=[b"Content-Encoding: gzip"])), ("close",)],
            "damaged or no HTTP",
        ),
        ([("send", http()[:-5]), ("stall",)], "no complete answer within 0.5 s"),
        ([("send", http()[:9]), ("stall",)], "no complete answer within 0.5 s"),
        ([("trickle", http(b" " * 500 + GOOD), 0.02), ("close",)], "no complete answer within 0.5 s"),
        (
            [("trickle", b"HTTP/1.1 200 OK\r\nX-Long: " + b"y" * 999, 0.02), ("close",)],
            "no complete answer within 0.5 s",
        ),
        ([("send", b"HTTP/1.1 100 Continue\r\n\r\n" * 100), ("stall",)], "no complete answer within 0.5 s"),
        ([("send", http(status="429 Slow", headers=[b"Retry-After: \xb2"])), ("close",)], "got status 429"),
        ([("send", b"SSH-2.0-OpenSSH_9\r\n"), ("close",)], "damaged or no HTTP (BadStatusLine)"),
        ([("reset",)], "ConnectionResetError"),
        ([("close",)], "damaged or no HTTP (RemoteDisconnected)"),
    ],
)
def test_what_is_no_answer_is_asked_again_and_then_one_line(server, kept, steps, words):
    found, seconds = ask(server, kept, steps=steps)
    assert f"expected an answer within {ATTEMPTS} attempts, got " in found and words in found
    assert found.endswith("what was answered is kept, and the same command goes on")
    assert server.connections == kept.asked == ATTEMPTS and seconds < ATTEMPTS * TIMEOUT_S + GRACE_S


@pytest.mark.parametrize(
    ("body", "answers"),
    [
        (b'{"scores": [1' + b"0" * 400 + b"]}", "logits"),
        (b'{"scores": [1' + b"0" * 5000 + b"]}", "logits"),
        (b'{"scores": [1e39]}', "logits"),
        (b'{"label": 1' + b"0" * 400 + b"}", "labels"),
        (b'{"label": -1}', "labels"),
        (b'{"scores": [-1, 2, 0, 0]}', "probabilities"),
        (b'{"scores": [0.5, 0.5, 0.5, 0.5]}', "probabilities"),
        (b'{"scores": [0, 0]}', "probabilities"),
        (b"[" * 10**6, "logits"),
    ],
)
def test_a_number_that_cannot_be_is_one_line_and_not_kept(server, kept, body, answers):
    found, _ = ask(server, kept, answers, [("send", http(body)), ("close",)])
    assert isinstance(found, str) and "expected " in found and server.connections == 1
    found, _ = ask(server, kept, answers, [("send", http()), ("close",)])
    assert not isinstance(found, str)


def test_what_is_packed_or_in_chunks_is_read(server, kept):
    chunked = b"5\r\n" + GOOD[:5] + b"\r\n" + f"{len(GOOD) - 5:x}".encode() + b"\r\n" + GOOD[5:] + b"\r\n0\r\n\r\n"
    for answer in (
        http(gzip.compress(GOOD), headers=[b"Content-Encoding: gzip"]),
        http(length=False),
        http(zlib.compress(GOOD), headers=[b"Content-Encoding: deflate"]),
        http(chunked, length=False, headers=[b"Transfer-Encoding: chunked"]),
    ):
        found, _ = ask(server, kept, steps=[("send", answer), ("close",)])
        assert found.tolist() == [[0.25, 0.5, 0.25]]


def test_a_body_that_unpacks_to_more_is_cut_and_refused(server, kept):
    bomb = http(gzip.compress(b" " * 2**26), headers=[b"Content-Encoding: gzip"])
    server.play, server.connections = [[("send", bomb), ("close",)]], 0
    answer = wire.exchange(server.url, b"x", {}, seconds=10)
    assert len(answer.body) == wire.MOST_BYTES + 1
    assert 'expected {"scores": [0.1, ...]}' in ask(server, kept, steps=[("send", bomb), ("close",)])[0]


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
