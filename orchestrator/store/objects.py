"""Objects below s3://bucket/prefix: read, write, list, delete; every failure of the service is one line.

An object appears whole or not at all: S3 shows it when its upload is complete. Credentials and region come from the
usual environment (AWS_ACCESS_KEY_ID, AWS_PROFILE, AWS_REGION, a machine's role), the endpoint of another service than
Amazon's from AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from pyarrow.fs import AwsStandardS3RetryStrategy, FileInfo, FileSelector, FileType, S3FileSystem

from smoothsweep.core.errors import InputError
from smoothsweep.core.uris import shown_uri, without_secrets
from smoothsweep.orchestrator.store.manifests import is_inner_path

SCHEME = "s3://"
ATTEMPTS, PROBE_ATTEMPTS = 5, 2  # of one request: work is patient, the first question of a command is not
CONNECT_S, REQUEST_S = 5.0, 60.0
CHUNK = 8 * 2**20  # bytes
AT_ONCE = 16  # requests on their way together
MEANINGS = {
    "NO_SUCH_BUCKET": "expected a bucket, got none of that name",
    "ACCESS_DENIED": "expected permission to list, read and write (are the credentials set?), got a refusal",
    "INVALID_ACCESS_KEY_ID": "expected valid credentials, got others",
    "INVALID_CLIENT_TOKEN_ID": "expected valid credentials, got others",
    "SIGNATURE_DOES_NOT_MATCH": "expected valid credentials, got others",
    "NETWORK_CONNECTION": "expected an answer from {endpoint}, got none",
}

Item = TypeVar("Item")
Result = TypeVar("Result")


class ObjectStoreError(OSError):
    """The service refused or did not answer: where, and what it said, in one line."""


class Listed(NamedTuple):
    """One object of a listing. key: below the prefix asked for; changed: nanoseconds since 1970."""

    key: str
    changed: int


@dataclass(frozen=True, kw_only=True)
class Objects:
    """The objects below `url` (s3://bucket or s3://bucket/prefix); keys are relative to it."""

    url: str
    attempts: int = ATTEMPTS

    @property
    def filesystem(self) -> S3FileSystem:
        return _filesystem(endpoint(), self.attempts)

    def place(self, key: str) -> str:
        """bucket/prefix/key, as pyarrow names it."""
        return f"{self.url.removeprefix(SCHEME)}/{key}"

    def prove_readable(self) -> None:
        """Raise ObjectStoreError unless bucket, permissions, credentials and endpoint are right."""
        with suppress(FileNotFoundError), self._one_line_errors(""):  # no such prefix yet; no bucket is another error
            self.filesystem.get_file_info(FileSelector(self.place("sweeps")))

    def read(self, key: str) -> bytes:
        """Raises FileNotFoundError if there is no such object."""
        with self._one_line_errors(key), self.filesystem.open_input_stream(self.place(key)) as stream:
            return stream.read()

    def write(self, key: str, content: bytes) -> None:
        with self._one_line_errors(key), self.filesystem.open_output_stream(self.place(key)) as stream:
            stream.write(content)

    def upload(self, key: str, path: Path) -> None:
        """Copy a local file, as it is when it is opened. A file that cannot be read to its end leaves no object."""
        with path.open("rb") as file, self._one_line_errors(key):
            try:
                with self.filesystem.open_output_stream(self.place(key)) as stream:
                    shutil.copyfileobj(file, stream, CHUNK)
            except BaseException:
                self.delete(key)  # closing the stream may have completed what had been written until then
                raise

    def download(self, key: str, path: Path) -> None:
        """Copy an object into a local file. Raises FileNotFoundError if there is none."""
        with (
            self._one_line_errors(key),
            self.filesystem.open_input_stream(self.place(key)) as stream,
            path.open("wb") as file,
        ):
            shutil.copyfileobj(stream, file, CHUNK)

    def listed(self, prefix: str) -> list[Listed]:
        """Every object below `prefix/`, however deep; none if there is no such prefix.

        Raises InputError for a key that would lead out of a folder.
        """
        base = self.place(prefix)
        with self._one_line_errors(prefix):
            infos = self.filesystem.get_file_info(FileSelector(base, recursive=True, allow_not_found=True))
        files = [info for info in infos if info.type == FileType.File]
        objects = [Listed(info.path[len(base) + 1 :], info.mtime_ns or 0) for info in files]
        for item in objects:  # keys become paths of this machine
            if not is_inner_path(item.key):
                raise InputError(f"{self.url}/{prefix}: expected objects of plain names, got {item.key[:80]!r}")
        return objects

    def changed(self, key: str) -> int | None:
        """When the object changed last, in nanoseconds since 1970; None if there is none."""
        with self._one_line_errors(key):
            info: FileInfo = self.filesystem.get_file_info(self.place(key))
        return info.mtime_ns or 0 if info.type == FileType.File else None

    def delete(self, key: str) -> None:
        """Delete an object; one that is not there is no error."""
        with suppress(FileNotFoundError), self._one_line_errors(key):
            self.filesystem.delete_file(self.place(key))

    def delete_below(self, prefix: str) -> None:
        with self._one_line_errors(prefix):
            self.filesystem.delete_dir_contents(self.place(prefix), missing_dir_ok=True)

    def move_below(self, prefix: str, to: str) -> None:
        """Give every object below `prefix/` the same name below `to/`: copied in the service, then deleted."""
        for listed in self.listed(prefix):
            with self._one_line_errors(f"{prefix}/{listed.key}"):
                self.filesystem.copy_file(self.place(f"{prefix}/{listed.key}"), self.place(f"{to}/{listed.key}"))
        self.delete_below(prefix)

    @contextmanager
    def _one_line_errors(self, key: str) -> Generator[None]:
        """Turn the service's errors into one line that names the place."""
        try:
            yield
        except ObjectStoreError:
            raise
        except FileNotFoundError as error:
            raise FileNotFoundError(2, "No such object", error.filename or f"{self.url}/{key}") from None
        except OSError as error:
            if error.errno is not None:  # of a local file
                raise
            raise ObjectStoreError(f"{self.url}: {_explained(str(error))}") from None


def all_at_once(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """function of every item, AT_ONCE at a time, in order; the first error ends it."""
    items = list(items)
    if len(items) < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        return list(pool.map(function, items))


def endpoint() -> str | None:
    """The service's address where it is not Amazon's."""
    return os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def _explained(message: str) -> str:
    """What an AWS error means to the person in front of it, with the service's own words."""
    text = " ".join(re.sub(r"\(Request ID:[^)]*\)", "", without_secrets(message, endpoint() or "")).split())
    for code, meaning in MEANINGS.items():
        if code in text:
            return f"{meaning.format(endpoint=shown_uri(endpoint() or 'Amazon S3'))} ({text[:200]})"
    return text[:300]


@lru_cache(maxsize=4)
def _filesystem(endpoint: str | None, attempts: int) -> S3FileSystem:
    """One per process, endpoint and patience: it holds connections."""
    return S3FileSystem(
        endpoint_override=endpoint,
        connect_timeout=CONNECT_S,
        request_timeout=REQUEST_S,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=attempts),
        allow_delayed_open=True,  # a small object is one request
    )
