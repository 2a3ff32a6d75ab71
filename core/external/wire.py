"""One HTTP request and its answer within a deadline, whatever the other side does: bounded in time and in bytes.

No setting of the environment changes where it goes or what it says: no proxy, no `~/.netrc`, no redirect. Python's own
client limits each wait for bytes, not their sum, so every read here is given what is left of the time.
"""

from __future__ import annotations

import http.client
import io
import os
import socket
import ssl
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import certifi

MOST_BYTES = 4 * 2**20  # of an answer's body, unpacked: a hundred thousand scores
MOST_HEADER_BYTES = 2**20  # status, headers, the marks of chunks
BLOCK = 2**16
PACKED = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


@dataclass(frozen=True, kw_only=True)
class Response:
    """An answer of an HTTP endpoint.

    Attributes:
        body: The content, at most a byte more than MOST_BYTES.
        retry_after: The header, None where there is none.
    """

    status: int
    body: bytes
    retry_after: str | None


class NoResponse(Exception):
    """No answer that can be read. The message is a few words; left: whether something of the request was sent."""

    def __init__(self, words: str, *, left: bool) -> None:
        super().__init__(words)
        self.left = left


def exchange(url: str, body: bytes, headers: Mapping[str, str], *, seconds: float) -> Response:
    """POST `body` to a plain address (`core.external.address`) and read the answer, within so many seconds in all.

    Raises NoResponse. Looking the host's name up takes as long as the resolver does, beyond the deadline.
    """
    parts = urlsplit(url)
    connection = _Connection(parts.hostname or "", parts.port, secure=parts.scheme == "https", seconds=seconds)
    left = False
    try:
        connection.connect()
        left = True
        connection.request("POST", parts.path or "/", body=body, headers={"Connection": "close", **headers})
        response = connection.getresponse()
        read = _body(response) if response.status == http.client.OK else b""  # why it refuses is not looked at
        return Response(status=response.status, body=read, retry_after=response.headers.get("Retry-After"))
    except TimeoutError:
        raise NoResponse(f"no complete answer within {seconds:g} s", left=left) from None
    except ssl.SSLCertVerificationError as error:  # a ValueError too, and no fault of an answer
        raise NoResponse(f"a certificate that is not trusted: {error.verify_message}", left=left) from None
    except (http.client.HTTPException, zlib.error, ValueError, ArithmeticError) as error:
        raise NoResponse(f"an answer that is damaged or no HTTP ({type(error).__name__})", left=left) from None
    except OSError as error:  # names, routes, certificates, connections that break
        raise NoResponse(f"{type(error).__name__}: {error.strerror or 'no connection'}", left=left) from None
    finally:
        connection.end()


class _Connection(http.client.HTTPConnection):
    """A connection whose every wait ends at one moment."""

    def __init__(self, host: str, port: int | None, *, secure: bool, seconds: float) -> None:
        super().__init__(host, port or (443 if secure else 80), blocksize=BLOCK)
        self._secure, self._until = secure, time.monotonic() + seconds
        self._opened: socket.socket | None = None

    def connect(self) -> None:
        plain = self._connected()
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._secure:
                plain.settimeout(_left(self._until))
                plain = _trust().wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise
        self._opened, self.sock = plain, _Timed(plain, self._until)

    def end(self) -> None:
        """Close the socket; `close` is called by `http.client` while it still reads from it."""
        if self._opened is not None:
            self._opened.close()

    def _connected(self) -> socket.socket:
        error: OSError = OSError("no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM):
            connection = socket.socket(family, kind, protocol)
            try:
                connection.settimeout(_left(self._until))
                connection.connect(address)
                return connection
            except OSError as failed:
                connection.close()
                error = failed
        raise error


class _Timed:
    """What `http.client` needs of a socket. Raises TimeoutError at the deadline, HTTPException after too many bytes."""

    def __init__(self, sock: socket.socket, until: float) -> None:
        self._sock, self._until = sock, until

    def sendall(self, data: bytes) -> None:
        self._sock.settimeout(_left(self._until))
        self._sock.sendall(data)  # its timeout is of the whole

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reading(self._sock, self._until), BLOCK)

    def close(self) -> None:
        """Nothing: the connection's `end` does."""


class _Reading(io.RawIOBase):
    def __init__(self, sock: socket.socket, until: float) -> None:
        self._sock, self._until, self._more = sock, until, MOST_BYTES + MOST_HEADER_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(_left(self._until))
        count = self._sock.recv_into(buffer)
        self._more -= count
        if self._more < 0:
            raise http.client.HTTPException("too many bytes")
        return count


def _body(response: http.client.HTTPResponse) -> bytes:
    """The body, unpacked, at most MOST_BYTES + 1 of it. Raises http.client.HTTPException where it is cut short."""
    packing = response.headers.get("Content-Encoding", "identity").strip().lower()
    if packing not in ("identity", "", *PACKED):
        raise http.client.HTTPException("an unknown packing")
    unpacking = zlib.decompressobj(PACKED[packing]) if packing in PACKED else None
    content = bytearray()
    while len(content) <= MOST_BYTES and (block := response.read(BLOCK)):
        content += block if unpacking is None else unpacking.decompress(block, MOST_BYTES + 1 - len(content))
    whole = len(content) > MOST_BYTES
    if not whole and (response.length or (unpacking is not None and not unpacking.eof)):
        raise http.client.IncompleteRead(b"")
    return bytes(content[: MOST_BYTES + 1])


def _left(until: float) -> float:
    """Seconds until then. Raises TimeoutError."""
    if (left := until - time.monotonic()) <= 0:
        raise TimeoutError
    return left


@cache
def _trust() -> ssl.SSLContext:
    """The machine's authorities and Mozilla's, or those of the file that the user names, as `requests` reads it."""
    named = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("SSL_CERT_FILE")
    context = ssl.create_default_context(cafile=named or certifi.where())
    if not named:
        context.load_default_certs()
    return context
