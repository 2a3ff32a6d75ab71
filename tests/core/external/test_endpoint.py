"""Endpoints: where a picture may go, what is sent, how often and how fast, and whatever comes back, however slowly."""

import datetime
import gzip
import io
import json
import socket
import ssl
import tempfile
import threading
import time
import zlib
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import named
from smoothsweep.core.external.base import Budget
from smoothsweep.core.external.named import (
    MOST_BYTES,
    Endpoint,
    HTTPEndpoint,
    KeptAnswers,
    answers_database,
    bearer,
    is_plain,
)
from tests.made_raw_endpoint import raw_server

CPU = torch.device("cpu")
TIMEOUT_S, ATTEMPTS, GRACE_S = 0.5, 2, 20.0
GOOD = b'{"scores": [0.25, 0.5, 0.25], "label": 1}'
FAST = {"TIMEOUT_S": TIMEOUT_S, "ATTEMPTS": ATTEMPTS, "LONGEST_PAUSE_S": 0.001}
STOP = ("close",)


def http(body=GOOD, status="200 OK", headers=(), length=True):
    lines = [f"HTTP/1.1 {status}".encode(), *([b"Content-Length: %d" % len(body)] if length else []), *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def play(server, *connections):
    """What the server does with each connection from now on, the last for ever."""
    server.play, server.connections, server.requests[:] = [[*steps] for steps in connections], 0, []
    return server


def endpoint(server, kept, answers="logits", token_env=None):
    return Endpoint(server.url, kept, token_env=token_env, answers=answers)


def shade(value, count=1):
    return torch.full((count, 3, 4, 4), float(value))


def ask(server, kept, answers="logits", steps=None, seconds=TIMEOUT_S):
    """(what came, or the line that was said; seconds), with short waits. seconds: of an attempt."""
    play(server, steps)
    before, started = kept.asked, time.monotonic()
    with patch.multiple(named, **FAST | {"TIMEOUT_S": seconds}):
        try:  # a picture that was never asked before
            found = endpoint(server, kept, answers)(shade(np.random.default_rng(time.monotonic_ns()).random()))
        except InputError as error:
            found = str(error)
    assert kept.asked - before == server.connections, "what left is counted"
    return found, time.monotonic() - started


@pytest.mark.parametrize(
    ("url", "fine"),
    [
        *((f"http{end}", True) for end in ("://host", "s://host:1/", "s://host:65535", "s://host/a:0/b:99999")),
        *((f"https://{end}", True) for end in ("[::1]:8000/v1", "[fe80::99999]/", "h" * 253 + "/", "host/%20/%aF")),
        *(
            (f"https://host{end}", False)
            for end in (":0/", ":65536/", ":123456/", "/%2", "/a b", "/a\n", ":/x", "/%zz")
        ),
        *((f"https://{end}", False) for end in ("-host/", "[::1]:0/v1", "h" * 254 + "/", "/v1", "")),
        *((url, False) for url in ("HTTPS://host/", "httpss://host/", "ftp://host/v1", "host", "file:///etc")),
    ],
)
def test_an_address_is_a_host_perhaps_a_port_and_a_path(url, fine):
    assert is_plain(url) is fine
    if fine:
        HTTPEndpoint(yes=True).check(url)
    else:
        with pytest.raises(InputError):
            HTTPEndpoint(yes=True).check(url)


SECRETS = """http://{s}@host/a https://me:{s}@host/a https://:{s}@host https://host/a?{n}={s} https://host?{s}
https://host/a?x=1&{n}={s} https://host/a#{n}={s} https://host/#{s} http://{s}/@host http://host\\@{s} ftp://host/a?{s}"""


@given(
    secret=st.text(alphabet="QZXJ", min_size=3, max_size=12),
    name=st.text(alphabet="abcdefgh_-.0123456789", min_size=1, max_size=10),
    form=st.sampled_from(SECRETS.split()),
)
def test_a_url_that_may_hold_a_secret_is_refused_and_written_nowhere(secret, name, form):
    url = form.format(s=secret, n=name)
    with tempfile.TemporaryDirectory() as folder:
        with pytest.raises(InputError, match="without user, query or fragment") as refused:
            HTTPEndpoint(yes=True).describe(url, Path(folder) / "model")
        card = Path(folder) / "endpoint.json"
        card.write_text(json.dumps({"url": url, "answers": str(card), "token_env": None}))
        with pytest.raises(InputError, match="without user, query or fragment"):  # one made before, or by hand
            HTTPEndpoint.open(card, {"answers": "logits"}, CPU)
    shown = str(refused.value) if "?" in form or "#" in form or form.startswith("http://{s}@") else ""
    assert not set("QZXJ") & set(shown)


@pytest.mark.parametrize("token", ["geh\u00e4im", "two words", "line\nbreak", "X: 1\r\nY: 2", "\u0661", "tab\t"])
def test_a_token_that_no_header_can_hold_is_one_line_that_does_not_show_it(kept, monkeypatch, token):
    monkeypatch.setenv("MY_TOKEN", token)
    with pytest.raises(InputError, match="expected a token of printable ASCII characters") as refused:
        Endpoint("http://127.0.0.1:1/", kept, token_env="MY_TOKEN", answers="logits")
    assert token not in str(refused.value)
    monkeypatch.delenv("MY_TOKEN")
    assert bearer("MY_TOKEN") == {}
    with pytest.raises(InputError, match="expected its token in the environment variable MY_TOKEN, got none"):
        Endpoint("http://127.0.0.1:1/", kept, token_env="MY_TOKEN", answers="logits")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"queries": 0}, "--queries: expected at least 1, got 0"),
        *(({"per_second": value}, "--per-second: expected more than 0") for value in (0.0, -1.5, np.nan, np.inf)),
    ],
)
def test_a_budget_that_is_none_is_one_line(given, line):
    with pytest.raises(InputError, match=line):
        HTTPEndpoint(**given)
    assert HTTPEndpoint().budget == Budget(queries=5000, per_second=5.0)


def test_nothing_is_sent_without_consent_and_what_was_agreed_is_noted_beside_the_folder(tmp_path):
    for name in ("https://host/v1", None):
        HTTPEndpoint(yes=True).check(name)
        with pytest.raises(InputError, match="expected --yes, since up to 33 pictures would be sent"):
            HTTPEndpoint(queries=33).check(name)
    folder = tmp_path / "model.v1"
    HTTPEndpoint(yes=True, queries=2, per_second=1e6).agree(folder)
    assert not folder.exists() and answers_database(folder) == tmp_path / "model.v1.answers.sqlite"
    kept = KeptAnswers(answers_database(folder), more="--more-of-it")
    for _ in range(2):
        kept.take_turn("here")
    with pytest.raises(InputError, match=r"^here: expected no more than 2 queries, .*--more-of-it"):
        kept.take_turn("here")
    HTTPEndpoint(yes=True, queries=3, per_second=1e6).agree(folder)
    kept.take_turn("here")
    assert kept.asked == 3


def test_processes_share_pace_and_budget_and_a_file_that_is_gone_is_one_line(kept):
    """Threads with connections of their own stand in for processes: the file is what they share."""
    kept.agree(queries=10, per_second=40)
    refused, started = [], time.monotonic()

    def take():
        for _ in range(4):
            try:
                KeptAnswers(kept.path).take_turn("here")
            except InputError:
                refused.append(1)

    threads = [threading.Thread(target=take) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert kept.asked == 10 and len(refused) == 6 and time.monotonic() - started >= 9 / 40
    kept.path.unlink()
    for look in (lambda: kept.get("x"), lambda: kept.put("x", 1), lambda: kept.asked, lambda: kept.take_turn("here")):
        with pytest.raises(InputError, match=r"sqlite: expected an endpoint's answers, got nothing"):
            look()
    assert not kept.path.exists()


def test_pixels_are_rounded_and_clamped_and_sent_once_as_a_picture(server, kept):
    """[3, H, W] in [0, 1] -> a PNG [H, W, 3]; the endpoint of the test knows the answers."""
    images = torch.linspace(-0.2, 1.2, 2 * 3 * 2 * 3).reshape(2, 3, 2, 3)
    play(server, [("send", http(b'{"scores": [1, 2.5]}')), STOP], [("send", http(b'{"scores": [3, -4]}')), STOP])
    found = endpoint(server, kept)(images.clone().requires_grad_(True))
    assert found.tolist() == [[1.0, 2.5], [3.0, -4.0]] and found.dtype == torch.float32 and not found.requires_grad
    assert torch.equal(endpoint(server, kept)(images), found) and server.connections == 2 == kept.asked
    for image, request in zip(images, server.requests, strict=True):
        head, _, body = request.partition(b"\r\n\r\n")
        assert head.startswith(b"POST /classify HTTP/1.1") and b"Content-Type: image/png" in head
        pixels = torch.from_numpy(np.array(Image.open(io.BytesIO(body)))).permute(2, 0, 1)
        assert torch.equal(pixels, (image.clamp(0, 1) * 255).round().to(torch.uint8))
    play(server, [("send", http()), STOP])
    assert endpoint(server, kept, "labels")(images[:1]).tolist() == [1], "another question of the same picture"
    assert endpoint(server, kept)(images[:1].reshape(1, 3, 3, 2)).shape == (1, 3) and server.connections == 2


CHUNKED = [b"Transfer-Encoding: chunked"]
LATE, BROKEN = "no answer within 0.5 s", "no whole answer: "


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([("send", http()[:-5]), STOP], BROKEN),
        ([("send", http(length=False, headers=CHUNKED)), STOP], BROKEN),
        ([("send", http(b"\x1f\x8bnothing", headers=[b"Content-Encoding: gzip"])), STOP], BROKEN),
        ([("send", http()[:-5]), ("stall",)], LATE),
        ([("send", http()[:9]), ("stall",)], LATE),
        ([("trickle", http(b" " * 500 + GOOD), 0.02), STOP], LATE),
        ([("trickle", b"HTTP/1.1 200 OK\r\nX-Long: " + b"y" * 999, 0.02), STOP], LATE),
        ([("send", b"HTTP/1.1 100 Continue\r\n\r\n" * 100), ("stall",)], LATE),
        ([("send", http(status="429 Slow", headers=[b"Retry-After: \xb2"])), STOP], "got status 429"),
        ([("send", b"SSH-2.0-OpenSSH_9\r\n"), STOP], BROKEN),
        ([("reset",)], BROKEN + "Connection reset by peer"),
        ([STOP], BROKEN),
        ([("send", http(status="-1 No")), STOP], BROKEN),
        ([("send", http(headers=[b"Content-Length: 99999999999"], length=False)), STOP], BROKEN),
        ([("send", http(headers=[b"X: " + b"y" * 70_000])), STOP], BROKEN),
        ([("send", http(b"zz\r\n", length=False, headers=CHUNKED)), STOP], BROKEN),
        ([("send", http(status="429 Slow", headers=[b"Retry-After: " + b"9" * 5000])), STOP], "got status 429"),
    ],
)
def test_what_is_no_answer_is_asked_again_and_then_one_line(server, kept, steps, words):
    found, seconds = ask(server, kept, steps=steps)
    assert f"expected an answer within {ATTEMPTS} attempts, got " in found
    assert words in found
    assert found.endswith("what was answered is kept, and the same command goes on")
    assert server.connections == kept.asked == ATTEMPTS and seconds < ATTEMPTS * TIMEOUT_S + GRACE_S


@pytest.mark.parametrize(
    ("body", "answers"),
    [
        *((f'{{"scores": [0.5, {score}]}}', "logits") for score in ("1" + "0" * 5000, "1e39", "true", "NaN", "null")),
        *((f'{{"label": {label}}}', "labels") for label in ("-1", "2147483648", "1.0", "true", "[1]", '"1"')),
        *((f'{{"scores": {scores}}}', "probabilities") for scores in ("[-1, 2]", "[0.5, 0.5, 0.5]", "[0, 0]")),
        *((text, "logits") for text in ("", "nothing", "[]", '{"scores": []}', '{"label": 1}', "[" * 10**6)),
    ],
)
def test_an_answer_that_cannot_be_is_one_line_and_not_kept(server, kept, body, answers):
    found, _ = ask(server, kept, answers, [("send", http(body.encode())), STOP])
    assert isinstance(found, str) and "expected " in found and server.connections == 1
    play(server, [("send", http(b'{"scores": [1, 2]}')), STOP], [("send", http()), STOP])
    with pytest.raises(InputError, match="expected as many scores each time"):
        endpoint(server, kept)(torch.cat([shade(0.1), shade(0.2)]))


def test_what_is_packed_or_in_chunks_is_read_and_a_bomb_is_cut(server, kept):
    chunked = b"5\r\n" + GOOD[:5] + b"\r\n" + f"{len(GOOD) - 5:x}".encode() + b"\r\n" + GOOD[5:] + b"\r\n0\r\n\r\n"
    for answer in (
        http(gzip.compress(GOOD), headers=[b"Content-Encoding: gzip"]),
        http(length=False),
        http(zlib.compress(GOOD), headers=[b"Content-Encoding: deflate"]),
        http(chunked, length=False, headers=CHUNKED),
        http(GOOD.ljust(MOST_BYTES)),
    ):
        found, _ = ask(server, kept, steps=[("send", answer), STOP], seconds=20)
        assert found.tolist() == [[0.25, 0.5, 0.25]]
    bomb = http(gzip.compress(b" " * 2**26), headers=[b"Content-Encoding: gzip"])
    for answer in (bomb, http(GOOD.ljust(MOST_BYTES + 1))):
        assert 'expected {"scores": [0.1, ...]}' in ask(server, kept, steps=[("send", answer), STOP], seconds=20)[0]


def test_only_what_may_pass_is_asked_again_and_every_attempt_counts(server, kept):
    """By what RFC 9110, 6585 and 8470 say: timeouts, too early, too many, and faults that may pass; no redirect."""
    with patch.multiple(named, **FAST):
        for number, status in enumerate((408, 425, 429, 500, 502, 503, 504)):
            busy = http(status=f"{status} Busy", headers=[b"Retry-After: 1"])
            play(server, [("send", busy), STOP], [("send", http()), STOP])
            assert endpoint(server, kept)(shade(number / 100)).shape == (1, 3) and server.connections == 2
        for status in ("204 No", "307 Elsewhere", "400 Bad", "401 Who", "404 None", "501 Not"):
            play(server, [("send", http(status=status, headers=[b"Location: http://127.0.0.1:1/x"])), STOP])
            with pytest.raises(InputError, match=f"expected an answer with status 200, got status {status[:3]}"):
                endpoint(server, kept)(shade(0.9))
            assert server.connections == 1
    kept.agree(queries=kept.asked + 3, per_second=1e6)
    with patch.multiple(named, **{**FAST, "ATTEMPTS": 5}):
        play(server, [("send", http(status="503 Busy")), STOP])
        for _ in range(2):
            with pytest.raises(InputError, match="got one after all were spent"):
                endpoint(server, kept)(shade(0.5))
            assert server.connections == 3


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/x", "http://no-such-host.invalid/x", "https://127.0.0.1:{port}/x"])
def test_where_nobody_answers_is_one_line(server, kept, url):
    """Nobody listens, no such name, no TLS."""
    play(server, [("unread",), ("send", b"no TLS here"), STOP])
    with (
        patch.multiple(named, **FAST | {"TIMEOUT_S": 20}),
        pytest.raises(InputError, match="within 2 attempts, got no whole answer: "),
    ):
        Endpoint(url.format(port=server.port), kept, token_env=None, answers="logits")(shade(0))
    assert kept.asked == 2


def test_what_was_answered_before_a_fault_is_kept(server, kept):
    images = torch.linspace(0, 1, 4)[:, None, None, None].expand(-1, 3, 4, 4)
    good, bad = [("send", http()), STOP], [("send", http()[:-3]), STOP]
    with patch.multiple(named, **FAST):
        play(server, good, good, bad)
        with pytest.raises(InputError, match="what was answered is kept"):
            endpoint(server, kept)(images)
        play(server, good)
        assert endpoint(server, kept)(images).shape == (4, 3) and server.connections == 2, "two of them were known"


def test_neither_a_proxy_nor_a_netrc_of_the_environment_is_followed(server, kept, monkeypatch, tmp_path):
    """The proxy would be asked instead of the server; a .netrc would take the place of the bearer token."""
    netrc = tmp_path / ".netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    netrc.chmod(0o600)
    for name, value in {"HOME": str(tmp_path), "NETRC": str(netrc), "MY_TOKEN": "ours"}.items():
        monkeypatch.setenv(name, value)
    with raw_server() as proxy, patch.multiple(named, **FAST):
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        play(server, [("send", http()), STOP])
        endpoint(server, kept, token_env="MY_TOKEN")(shade(0))
        assert proxy.connections == 0 and len(server.requests) == 1
    for request in server.requests:
        assert b"Authorization: Bearer ours\r\n" in request and request.lower().count(b"authorization") == 1
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"ours" in path.read_bytes()]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A file with a certificate of its own authority for `localhost`, and its key."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name, day = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")]), datetime.timedelta(days=1)
    made = (
        x509.CertificateBuilder(subject_name=name, issuer_name=name, public_key=key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = tmp_path_factory.mktemp("tls") / "one.pem"
    path.write_bytes(key.private_bytes(*form) + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.mark.parametrize(
    ("host", "known", "words"),
    [("localhost", True, ""), ("127.0.0.1", True, "IP address mismatch"), ("localhost", False, "self-signed")],
)
def test_over_tls_only_a_server_of_that_name_and_a_known_authority_is_asked(
    certificate, kept, monkeypatch, host, known, words
):
    context, seen = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), []
    context.load_cert_chain(certificate)
    for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.delenv(name, raising=False)
    if known:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    def serve(listening):
        plain, _ = listening.accept()
        try:
            with context.wrap_socket(plain, server_side=True) as secure:
                secure.settimeout(20)
                request = b""
                while b"IEND" not in request:
                    request += secure.recv(2**16)
                seen.append(request)
                secure.sendall(http())
        except OSError:  # the client does not trust it
            plain.close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, args=(listening,), daemon=True)
        thread.start()
        url = f"https://{host}:{listening.getsockname()[1]}/x"
        made = Endpoint(url, kept, token_env=None, answers="logits")
        with patch.multiple(named, **FAST | {"TIMEOUT_S": 20, "ATTEMPTS": 1}):
            if words:
                with pytest.raises(InputError, match=f"no whole answer: .*{words}"):
                    made(shade(0))
            else:
                assert made(shade(0)).tolist() == [[0.25, 0.5, 0.25]]
        thread.join(20)
    assert (len(seen), kept.asked) == (0 if words else 1, 1)
