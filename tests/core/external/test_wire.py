"""One request by hand: where it goes, what is sent, how much is read, how long it may take."""

import gzip
import http.client
import zlib

import pytest

from smoothsweep.core.external import wire
from smoothsweep.core.external.wire import MOST_BYTES, NoResponse, exchange
from tests.made_raw_endpoint import raw_server


@pytest.fixture(scope="module")
def server():
    with raw_server() as made:
        yield made


def play(server, *steps):
    server.play, server.connections, server.requests[:] = [[*steps]], 0, []
    return server


def answer(body, *headers, status="200 OK", length=True):
    lines = [f"HTTP/1.1 {status}".encode(), *headers, *([b"Content-Length: %d" % len(body)] if length else [])]
    return ("send", b"\r\n".join(lines) + b"\r\n\r\n" + body)


@pytest.mark.parametrize(("path", "sent"), [("", b"/"), ("/", b"/"), ("/a/b:c", b"/a/b:c"), ("/a%20b/", b"/a%20b/")])
def test_one_request_is_sent_to_the_path_of_the_address(server, path, sent):
    play(server, answer(b"fine"), ("close",))
    found = exchange(f"http://127.0.0.1:{server.port}{path}", b"\x00body\xff", {"X-Own": "it's"}, seconds=5)
    assert (found.status, found.body, found.retry_after) == (200, b"fine", None) and server.connections == 1
    head, _, body = server.requests[0].partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    named = {line.partition(b": ")[0].lower(): line.partition(b": ")[2] for line in lines}
    assert first == b"POST " + sent + b" HTTP/1.1" and body == b"\x00body\xff"
    assert named[b"content-length"] == b"6" and named[b"x-own"] == b"it's" and named[b"connection"] == b"close"
    assert named[b"host"] == b"127.0.0.1:%d" % server.port


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("http://host/x", 80),
        ("https://host/x", 443),
        ("http://host:443/x", 443),
        ("https://host:80/x", 80),
    ],
)
def test_a_port_that_is_not_said_is_that_of_the_scheme(monkeypatch, url, port):
    asked = []

    def no_such(host, where, **more):
        asked.append((host, where))
        assert more == {"type": wire.socket.SOCK_STREAM}  # of other kinds one that sends nothing would be opened
        raise OSError(-2, "no such name")

    monkeypatch.setattr(wire.socket, "getaddrinfo", no_such)
    with pytest.raises(NoResponse, match="no such name") as refused:
        exchange(url, b"", {}, seconds=1)
    assert asked == [("host", port)] and refused.value.left is False


def test_every_address_of_a_name_is_tried_and_the_last_fault_is_said(server, monkeypatch):
    """The first refuses: the second answers. Where none does, the last one's words."""
    play(server, answer(b"second"), ("close",))
    real = wire.socket.getaddrinfo
    both = [
        *real("127.0.0.1", 1, type=wire.socket.SOCK_STREAM),
        *real("127.0.0.1", server.port, type=wire.socket.SOCK_STREAM),
    ]
    monkeypatch.setattr(wire.socket, "getaddrinfo", lambda *given, **more: both)
    assert exchange("http://two.example/x", b"", {}, seconds=5).body == b"second"
    monkeypatch.setattr(wire.socket, "getaddrinfo", lambda *given, **more: both[:1] * 2)
    with pytest.raises(NoResponse, match="ConnectionRefusedError: Connection refused") as refused:
        exchange("http://two.example/x", b"", {}, seconds=5)
    assert not refused.value.left
    monkeypatch.setattr(wire.socket, "getaddrinfo", lambda *given, **more: [])
    with pytest.raises(NoResponse, match="no connection"):
        exchange("http://two.example/x", b"", {}, seconds=5)


@pytest.mark.parametrize("status", [204, 301, 404, 429, 503])
def test_another_status_is_told_with_its_pause_and_its_body_is_not_read(server, status):
    play(server, answer(b"why" * 99, b"Retry-After: 17", status=f"{status} Other"), ("close",))
    found = exchange(server.url, b"", {}, seconds=5)
    assert (found.status, found.body, found.retry_after) == (status, b"", "17")


PACKINGS = {
    b"gzip": gzip.compress,
    b"x-gzip": gzip.compress,
    b" GZIP ": gzip.compress,
    b"deflate": zlib.compress,
    b"identity": bytes,
    b"": bytes,
}


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("size", [0, 1, wire.BLOCK - 1, wire.BLOCK, 3 * wire.BLOCK + 5, MOST_BYTES - 1, MOST_BYTES])
def test_a_body_of_any_size_and_packing_comes_whole(server, packing, size):
    body = (b"0123456789abcde" * (size // 15 + 1))[:size]
    play(server, answer(PACKINGS[packing](body), b"Content-Encoding: " + packing), ("close",))
    assert exchange(server.url, b"", {}, seconds=30).body == body


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("beyond", [1, 70_000])
def test_more_than_the_most_is_cut_one_byte_beyond(server, packing, beyond):
    body = b"0123456789abcde" * ((MOST_BYTES + beyond) // 15 + 1)
    play(server, answer(PACKINGS[packing](body[: MOST_BYTES + beyond]), b"Content-Encoding: " + packing), ("close",))
    assert exchange(server.url, b"", {}, seconds=30).body == body[: MOST_BYTES + 1]


@pytest.mark.parametrize("packing", [b"br", b"zstd", b"gzip, gzip", b"compress"])
def test_an_unknown_packing_is_no_answer(server, packing):
    play(server, answer(b"body", b"Content-Encoding: " + packing), ("close",))
    with pytest.raises(NoResponse, match="damaged or no HTTP") as refused:
        exchange(server.url, b"", {}, seconds=5)
    assert refused.value.left is True


def test_headers_without_end_are_cut_and_what_is_read_is_counted(monkeypatch):
    """A megabyte beside the body and no more: the byte after it ends the reading."""

    class Endless:
        def settimeout(self, seconds):
            assert 0 < seconds <= 60

        def recv_into(self, buffer):
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    for size in (1, 1000, wire.BLOCK):
        reading, read = wire._Reading(Endless(), wire.time.monotonic() + 60), 0
        monkeypatch.setattr(reading, "_more", 10 * size)
        for _ in range(10):
            read += reading.readinto(bytearray(size))
        assert read == 10 * size
        with pytest.raises(http.client.HTTPException, match="too many bytes"):
            reading.readinto(bytearray(size))
    assert wire._Reading(Endless(), 0.0)._more == 5 * 2**20


def test_the_deadline_is_of_the_whole_and_each_wait_gets_what_is_left(monkeypatch):
    waits = []

    class Noting:
        def settimeout(self, seconds):
            waits.append(round(seconds, 6))

        def recv_into(self, buffer):
            return 0

        def sendall(self, data):
            pass

    now = [100.0]
    monkeypatch.setattr(wire.time, "monotonic", lambda: now[0])
    timed = wire._Timed(Noting(), 103.0)
    timed.sendall(b"x")
    now[0] = 101.5
    timed.makefile("rb").read(1)
    assert waits == [3.0, 1.5]
    for late in (103.0, 104.0):
        now[0] = late
        with pytest.raises(TimeoutError):
            timed.sendall(b"x")
    connection = wire._Connection("host", None, secure=False, seconds=7.0)
    assert connection._until == 111.0 and connection.port == 80


def test_authorities_are_the_machines_and_mozillas_or_those_named(monkeypatch, tmp_path):
    made, loaded = [], []

    class Context:
        def load_default_certs(self):
            loaded.append(True)

    monkeypatch.setattr(wire.ssl, "create_default_context", lambda *, cafile: made.append(cafile) or Context())
    for first, second, wanted, machine in (
        (None, None, wire.certifi.where(), True),
        ("one.pem", None, "one.pem", False),
        (None, "two.pem", "two.pem", False),
        ("one.pem", "two.pem", "one.pem", False),
        ("", "", None, True),
    ):
        for name, value in (("REQUESTS_CA_BUNDLE", first), ("SSL_CERT_FILE", second)):
            monkeypatch.delenv(name, raising=False)
            if value is not None:
                monkeypatch.setenv(name, value)
        loaded.clear()
        wire._trust.__wrapped__()
        assert made[-1] == (wanted or wire.certifi.where()) and bool(loaded) is machine
