"""https: an answer from a server whose certificate is for its name and of a known authority, and from no other."""

import datetime
import socket
import ssl
import threading

import pytest

from smoothsweep.core.external import wire
from smoothsweep.core.external.wire import NoResponse, exchange

x509 = pytest.importorskip("cryptography.x509")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A file with a certificate of its own authority for `localhost`, and its key."""
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


@pytest.fixture
def port(certificate):
    """Of a server that answers each request with the name that it was asked for; what it was sent stays with it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(20)
        thread = threading.Thread(target=serve, args=(listening, context), daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        thread.join(20)


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecure"
seen: list[bytes] = []


def serve(listening, context):
    """One connection."""
    seen.clear()
    plain, _ = listening.accept()
    try:
        with context.wrap_socket(plain, server_side=True) as secure:
            secure.settimeout(20)
            while not b"".join(seen).endswith(b"body"):
                seen.append(secure.recv(2**16))
            secure.sendall(ANSWER)
            secure.unwrap()
    except OSError:  # the client does not trust it
        plain.close()


@pytest.fixture
def trust(monkeypatch):
    """Makes a file, or nothing, what a user's environment names."""

    def named(path):
        for name in ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"):
            monkeypatch.delenv(name, raising=False)
        if path is not None:
            monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(path))
        wire._trust.cache_clear()

    yield named
    wire._trust.cache_clear()


def test_a_server_of_that_name_is_asked(port, certificate, trust):
    trust(certificate)
    found = exchange(f"https://localhost:{port}/x", b"body", {}, seconds=20)
    assert (found.status, found.body) == (200, b"secure") and seen[0].startswith(b"POST /x HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("host", "known", "words"), [("127.0.0.1", True, "IP address mismatch"), ("localhost", False, "self-signed")]
)
def test_of_another_name_or_an_unknown_authority_nothing_is_sent(port, certificate, trust, host, known, words):
    trust(certificate if known else None)
    with pytest.raises(NoResponse, match=f"^a certificate that is not trusted: {words}") as refused:
        exchange(f"https://{host}:{port}/x", b"body", {}, seconds=20)
    assert not refused.value.left and not seen
