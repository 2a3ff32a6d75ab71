"""Files of weights: where they lie, how they are fetched, what is read of them."""

import hashlib
import http.server
import io
import threading

import pytest
import torch

from smoothsweep.core.errors import InputError
from smoothsweep.core.models import weight_files
from smoothsweep.core.models.checkpoints import fitting_state, plain_tensors, read_tensor_file
from smoothsweep.core.models.classifiers import ARCHITECTURES
from smoothsweep.core.models.embedder_kinds import FACES, GENERAL
from smoothsweep.core.models.weight_files import (
    WEIGHT_FILES,
    WeightFile,
    fetch_weight_file,
    find_weight_file,
    stage_weights,
    verify_weight_file,
    weight_folders,
)

HTML = b"<!DOCTYPE html>\n<html><body>Please log in</body></html>"


def saved() -> bytes:
    buffer = io.BytesIO()
    torch.save({"a": torch.arange(2000.0)}, buffer)
    return buffer.getvalue()


GOOD = saved()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.rsplit("/", 1)[-1]
        self.server.asked.append(name)
        if name == "absent.pth":
            self.send_error(404)
            return
        if name == "silent.pth":
            self.server.released.wait(10)
            return
        body = {"page.pth": HTML, "other.pth": GOOD[:-1] + b"x"}.get(name, GOOD)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if name == "cut.pth" else body)

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.released = [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """No proxy, no named folder, and an empty torch hub."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv(weight_files.FOLDER_VARIABLE, raising=False)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))


def entry(name: str, server=None, *, sha256: str = "", port: int | None = None) -> WeightFile:
    port = port if port is not None else server.server_address[1] if server else 9
    return WeightFile(
        name=name,
        url=f"http://127.0.0.1:{port}/files/{name}.pth",
        sha256=sha256 or hashlib.sha256(GOOD).hexdigest(),
        mebibytes=None,
        licence="none",
    )


def test_every_pretrained_architecture_and_staged_judge_has_an_entry():
    own = {"resnet_small", "vgg_small", "ir50_64", "ir50_112", "ir50_112_narrow", "ir152_64"}
    assert set(WEIGHT_FILES) == {*ARCHITECTURES.keys() - own, "facenet", "swag_vit_b_16", "fid_inception"}
    assert "facenet" in FACES and "swag_vit_b_16" in GENERAL


def test_folders_are_searched_in_order(tmp_path, monkeypatch):
    assert weight_folders() == [tmp_path / "hub" / "checkpoints"]
    monkeypatch.setenv(weight_files.FOLDER_VARIABLE, str(tmp_path / "mine"))
    assert weight_folders() == [tmp_path / "mine", tmp_path / "hub" / "checkpoints"]
    assert find_weight_file("resnet18", weight_folders()) is None
    for folder in reversed(weight_folders()):
        folder.mkdir(parents=True)
        (folder / "resnet18-f37072fd.pth").write_bytes(GOOD)
        assert find_weight_file("resnet18", weight_folders()) == folder / "resnet18-f37072fd.pth"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (HTML, "is a web page saved as weights"),
        (b"\xef\xbb\xbf \r\n<HTML>", "is a web page saved as weights"),
        (b"<?xml version='1.0'?><Error/>", "is a web page saved as weights"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "is a Git LFS pointer"),
        (GOOD[:-100], "is cut short or damaged: a zip archive without its end"),
        (b"\x80\x02 something else", "is damaged or another file: expected SHA-256 "),
        (GOOD + b"\0", "is damaged or another file"),
    ],
)
def test_wrong_content_is_named_in_one_line(tmp_path, content, message):
    path = tmp_path / "file.pth"
    path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        verify_weight_file(path, entry("some"))
    assert message in str(raised.value) and str(path) in str(raised.value) and "\n" not in str(raised.value)


def test_fetching_verifies_and_leaves_one_file(server, tmp_path):
    path = fetch_weight_file(entry("good", server), tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "good.pth" and path.read_bytes() == GOOD
    assert list(path.parent.iterdir()) == [path]
    assert path.stat().st_mode & 0o044  # others on a cluster may read it


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("absent", "HTTP Error 404"),
        ("page", "the download is a web page saved as weights"),
        ("other", "the download is damaged or another file"),
        ("cut", "is cut short or damaged"),
        ("silent", "timed out"),
    ],
)
def test_failed_fetches_leave_nothing_and_say_what_to_do(server, tmp_path, name, cause):
    wanted = entry(name, server)
    (tmp_path / wanted.file_name).write_bytes(b"what was there before")
    with pytest.raises(InputError) as raised:
        fetch_weight_file(wanted, tmp_path, timeout=0.3 if name == "silent" else 10)
    message = str(raised.value)
    assert cause in message and "\n" not in message
    assert f"expected {name}.pth in {tmp_path}; download {wanted.url} and put it there" in message
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"what was there before"]


@pytest.fixture
def table(server, monkeypatch):
    """A table of files as the test server has them."""
    entries = {name: entry(name, server) for name in ("absent", "good", "page", "fine")}
    for name, one in entries.items():
        monkeypatch.setitem(WEIGHT_FILES, name, one)
    server.asked.clear()
    return entries


def test_staging_goes_on_after_a_failure_and_fetches_nothing_twice(server, table, tmp_path):
    results = stage_weights(["absent", "good", "page", "good", "fine"], tmp_path)
    assert [(r.name, r.path) for r in results] == [
        ("absent", None),
        ("good", tmp_path / "good.pth"),
        ("page", None),
        ("fine", tmp_path / "fine.pth"),
    ]
    assert "404" in results[0].reason and "web page" in results[2].reason and results[1].reason is None
    assert server.asked == ["absent.pth", "good.pth", "page.pth", "fine.pth"]
    assert stage_weights(["good"], tmp_path)[0].path == tmp_path / "good.pth" and len(server.asked) == 4


def test_staging_uses_what_another_folder_has(server, table, tmp_path):
    hub = tmp_path / "hub" / "checkpoints"
    hub.mkdir(parents=True)
    (hub / "good.pth").write_bytes(GOOD)
    assert stage_weights(["good"], tmp_path / "elsewhere")[0].path == hub / "good.pth"
    assert not server.asked


def test_staging_replaces_a_damaged_file_in_its_own_folder_only(server, table, tmp_path, monkeypatch):
    mine, hub = tmp_path / "mine", tmp_path / "hub" / "checkpoints"
    for folder in (mine, hub):
        folder.mkdir(parents=True)
        (folder / "good.pth").write_bytes(HTML)
    assert stage_weights(["good"], mine)[0].path.read_bytes() == GOOD
    result = stage_weights(["good"], tmp_path / "third")[0]
    assert result.path is None and str(hub / "good.pth") in result.reason and "web page" in result.reason
    assert (hub / "good.pth").read_bytes() == HTML and server.asked == ["good.pth"]


def saved_of_pretrained(content, **options) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer, **options)
    return buffer.getvalue()


STATE = {"a.weight": torch.arange(300.0), "epoch": 3}
ZIP, LEGACY = saved_of_pretrained(STATE), saved_of_pretrained(STATE, _use_new_zipfile_serialization=False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a checkpoint", "is no readable weight file"),
        (ZIP[:-50], "is cut short"),
        (LEGACY[:-50], "is no readable weight file"),
    ],
)
def test_damaged_files_are_named_in_one_line(tmp_path, content, message):
    (tmp_path / "x.pth").write_bytes(content)
    with pytest.raises(InputError) as raised:
        read_tensor_file(tmp_path / "x.pth", "test")
    assert message in str(raised.value) and "x.pth" in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ([1], "expected a dictionary of tensors, got list"),
        ({}, "expected a dictionary of tensors, got dict"),
        ({"a": 1}, "'a': expected a tensor, got int"),
        ({1: torch.zeros(1)}, "1: expected a tensor"),
        ({"a": torch.zeros(2, 2).to_sparse()}, "a: expected a dense tensor of real numbers, got .*sparse"),
        ({"a": torch.zeros(2, device="meta")}, "a: expected a dense tensor of real numbers, got .*meta"),
        ({"a": torch.zeros(2, dtype=torch.complex64)}, "a: .* got torch.complex64"),
    ],
)
def test_only_plain_tensors_make_a_state(state, message):
    with pytest.raises(InputError, match=f"^test: {message}"):
        plain_tensors(state, "test")


def test_huge_shapes_over_little_memory_are_refused_before_they_are_touched():
    state = {"a": torch.zeros(1).expand(10**6, 10**6)}
    with pytest.raises(InputError, match=r"expected shape \(2,\), got \(1000000, 1000000\)"):
        fitting_state(state, {"a": torch.zeros(2)}, "test")


def test_numbers_must_be_finite_in_the_networks_precision():
    with pytest.raises(InputError, match=r"^test: a: expected finite numbers"):
        fitting_state({"a": torch.tensor([1e300], dtype=torch.float64)}, {"a": torch.zeros(1)}, "test")
