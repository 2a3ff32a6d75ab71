"""Manifests that somebody damaged or wrote on purpose, by name: what is done to the file."""

import json
import math
import os

from smoothsweep.orchestrator.store.manifests import sealed


def nested(depth):
    value = 1
    for _ in range(depth):
        value = {"in": value}
    return value


VALUES = {
    "text": "x",
    "nothing": None,
    "a list": [1],
    "a mapping": {"a": 1},
    "true": True,
    "NaN": math.nan,
    "infinite": math.inf,
    "minus infinite": -math.inf,
    "10^400": 10**400,
    "-10^400": -(10**400),
    "below 0": -1,
    "1e308": 1e308,
    "deep": nested(500),
    "terminal": "\x1b]0;x\x07",
    "long": "x" * 10**5,
}
KEYS = (
    "seconds",
    "finished_at",
    "metrics",
    "files",
    "sizes",
    "config",
    "inputs",
    "stage",
    "version",
    "code_version",
    "device",
    "host",
    "libraries",
    "fingerprint",
    "result",
)
INNER = ("metrics", "sizes", "files", "inputs", "config", "libraries")


def whole(manifest, seal):
    seal = seal and isinstance(manifest.get("files"), dict)  # no other can be sealed
    return json.dumps(sealed(manifest) if seal else {k: v for k, v in manifest.items() if k not in ("seal", "result")})


def replaced(key, value, seal):
    def change(path):
        path.write_text(whole({**json.loads(path.read_text()), key: value}, seal))

    return change


def put_into(key, value, seal):
    """In the place of something inside, where there is anything, and beside it."""

    def change(path):
        manifest = json.loads(path.read_text())
        inside = dict.fromkeys(manifest.get(key) or {}, value) | {"test_acc": value}
        path.write_text(whole({**manifest, key: inside}, seal))

    return change


def left_out(key):
    def change(path):
        manifest = json.loads(path.read_text())
        del manifest[key]
        path.write_text(whole(manifest, True))

    return change


def made_of_itself(path):
    manifest = json.loads(path.read_text())
    manifest["inputs"] = {"data": {"stage": manifest["stage"], "fingerprint": manifest["fingerprint"]}}
    path.write_text(whole(manifest, True))


def made_of_what_was_made_of_it(path):
    """A circle through another artifact of the same store."""
    manifest = json.loads(path.read_text())
    other = next(one for one in path.parent.parent.parent.glob("judge_embedder/*/manifest.json"))
    manifest["inputs"] = {"data": {"stage": "judge_embedder", "fingerprint": other.parent.name}}
    path.write_text(whole(manifest, True))


def of_other_bytes(content):
    def change(path):
        path.write_bytes(content)

    return change


def a_folder(path):
    path.unlink()
    path.mkdir()


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def a_link_to_itself(path):
    path.unlink()
    path.symlink_to(path.name)


def a_device(path):
    path.unlink()
    path.symlink_to("/dev/zero")


CORPUS = {
    **{f"{key} {name} sealed": replaced(key, value, True) for key in KEYS for name, value in VALUES.items()},
    **{f"in {key} {name}": put_into(key, value, True) for key in INNER for name, value in VALUES.items()},
    **{f"without {key}": left_out(key) for key in ("seconds", "finished_at", "metrics", "files", "config", "inputs")},
    **{
        repr(content[:20]): of_other_bytes(content)
        for content in (b"", b"{", b"[]", b"null", b"\xff" * 99, b"[" * 10**5, b'{"a": ' * 2000, b"1" * 5000)
    },
    **{
        change.__name__: change
        for change in (made_of_itself, made_of_what_was_made_of_it, a_folder, a_pipe, a_link_to_itself, a_device)
    },
}


OFTEN = (
    "seconds infinite sealed",
    "seconds text sealed",
    "finished_at 1e308 sealed",
    "metrics a list sealed",
    "config deep sealed",
    "inputs text sealed",
    "in metrics 10^400",
    "in metrics NaN",
    "in metrics nothing",
    "in sizes below 0",
    "in files nothing",
    "in config infinite",
    "in libraries a mapping",
    "without seconds",
    "without metrics",
    "device a mapping sealed",
    "libraries nothing sealed",
    "files a mapping sealed",
    "metrics a mapping sealed",
    "made_of_itself",
    "made_of_what_was_made_of_it",
    "a_folder",
    "a_pipe",
    "a_device",
)
