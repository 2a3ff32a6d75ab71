"""Whatever an endpoint answers, and however slowly: a valid answer or one line, in time, and the right count."""

import gzip
import json
import zlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smoothsweep.core.external import wire
from smoothsweep.core.external.answers import KeptAnswers
from tests.asked_endpoint import ATTEMPTS, GOOD, GRACE_S, TIMEOUT_S, ask, http


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
    found, seconds = ask(server, kept, answers, steps, seconds=0.2)
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
