"""The store on S3: damaged objects are set aside and made again, names that lead out of their folder are refused."""

import json
import os
import re

import pytest

from smoothsweep.core.errors import ArtifactDamaged, InputError
from smoothsweep.orchestrator.store.common import sealing
from smoothsweep.orchestrator.store.opening import open_store
from tests.orchestrator.store.remote.made import below, fill, other_machine, stage
from tests.s3 import BUCKET, s3_client


@pytest.mark.parametrize("harm", ["other content", "no object", "manifest edited", "manifest cut"])
def test_a_damaged_object_is_set_aside_and_made_again(s3, monkeypatch, tmp_path, harm):
    a = stage(classes=1)
    fill(open_store(s3), a)
    prefix = s3.split("/", 3)[3]
    manifest, files = f"{prefix}/sleep/{a.fingerprint}/manifest.json", below(s3, "files")
    client = s3_client({"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"]})
    content = client.get_object(Bucket=BUCKET, Key=manifest)["Body"].read()
    if harm == "no object":
        client.delete_object(Bucket=BUCKET, Key=files[0])
    elif harm == "other content":
        client.put_object(Bucket=BUCKET, Key=files[0], Body=b"numberz")
    else:
        edited = re.sub(rb'(": ?)1\.0\b', rb"\g<1>0.9", content)  # a number, and not the name of an attempt
        assert edited != content
        client.put_object(Bucket=BUCKET, Key=manifest, Body=edited if "edited" in harm else content[:100])
    other = other_machine(s3, monkeypatch, tmp_path)
    why = {
        "other content": "rows.bin differs from its checksum",
        "no object": "rows.bin is missing",
        "manifest edited": "its manifest was changed",
        "manifest cut": "its manifest is unreadable",
    }[harm]
    with pytest.raises(ArtifactDamaged, match=f"sleep {a.fingerprint[:8]}: {why}.*; it is set aside in {s3}/damaged/"):
        other.path(a)
    assert not other.has(a) and below(s3, "damaged") and not below(s3, "sleep") and not below(s3, "files")
    fill(other, a)
    assert (open_store(s3).path(a) / "rows.bin").read_bytes() == b"numbers"


@pytest.mark.parametrize("file", ["rows.bin", "manifest.json"])
def test_a_damaged_file_of_the_mirror_is_brought_again(s3, file):
    store, a = open_store(s3), stage(classes=1)
    fill(store, a)
    path = store.path(a) / file
    times = path.stat()
    path.write_bytes(b"\0" * times.st_size)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert (store.path(a) / "rows.bin").read_bytes() == b"numbers" and store.metrics(a) == {"x": 1.0}
    assert store.file(a, "rows.bin").read_bytes() == b"numbers" and not below(s3, "damaged")


@pytest.mark.parametrize("name", ["../../../evil", "..", "/evil", "a/../../evil", ".hidden", "a\0b", ""])
def test_names_that_lead_out_of_their_folder_are_refused(s3, monkeypatch, tmp_path, name):
    store, a = open_store(s3), stage(classes=1)
    fill(store, a)
    key = f"sleep/{a.fingerprint}/manifest.json"
    manifest = json.loads(store.objects.read(key))
    evil = sealing.sealed({**manifest, "files": {name: "0" * 64}})
    store.objects.write(key, json.dumps(evil).encode())
    other = other_machine(s3, monkeypatch, tmp_path)
    with pytest.raises(ArtifactDamaged, match="its manifest names an impossible file"):
        other.path(a)
    evil = sealing.sealed({**manifest, "attempt": name})
    store.objects.write(key, json.dumps(evil).encode())
    with pytest.raises(ArtifactDamaged, match="its manifest names an impossible attempt"):
        other.path(a)
    assert not list(tmp_path.rglob("*evil*"))


def test_work_may_hold_the_hidden_files_of_ray_train(s3):
    """It proves with one that it can write where its checkpoints go, and leaves it there."""
    store, a = open_store(s3), stage(classes=1)
    client = s3_client({"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"]})
    folder = f"{s3.split('/', 3)[3]}/work/sleep/{a.fingerprint}"
    for key in ("ray_train/.validate_storage_marker", "checkpoint.pt"):
        client.put_object(Bucket=BUCKET, Key=f"{folder}/{key}", Body=b"x")
    with store.working(a) as work:
        assert [path.name for path in work.iterdir()] == ["checkpoint.pt"]  # Ray Train fetches its own itself
    assert store.sweep_away_drafts() == 0


def test_work_of_impossible_names_is_refused(s3, tmp_path):
    store, a = open_store(s3), stage(classes=1)
    client = s3_client({"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"]})
    prefix = s3.split("/", 3)[3]
    client.put_object(Bucket=BUCKET, Key=f"{prefix}/work/sleep/{a.fingerprint}/classes/../../../evil", Body=b"x")
    with pytest.raises(InputError, match="expected objects of plain names"), store.working(a):
        pass
    assert not list(tmp_path.rglob("*evil*"))
