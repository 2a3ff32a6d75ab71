"""The judge of `examples/plugin` that asks a vision-language model: what is sent, what its words mean, its shares."""

import base64
import io
import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

from smoothsweep.core.errors import InputError
from smoothsweep.core.external import named as posting
from smoothsweep.core.external.named import KeptAnswers
from smoothsweep.tasks.context import TaskContext
from smoothsweep.tasks.files import save_tensors
from tests.made_endpoint import running


class Server(HTTPServer):
    """`says(pixels uint8 [H, W, 3])` is the answer's text, None a refusal; `script`: (status, body) to come first."""

    def __init__(self, says):
        super().__init__(("127.0.0.1", 0), Handler)
        self.says, self.script, self.asked, self.tokens = says, [], [], []
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text, shown = question["messages"][0]["content"]
        data = shown["image_url"]["url"].removeprefix("data:image/png;base64,")
        pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(data))))
        self.server.asked.append((self.path, question["model"], question["temperature"], text["text"], pixels))
        self.server.tokens.append(self.headers.get("Authorization"))
        status, body = self.server.script.pop(0) if self.server.script else (200, None)
        if body is None:
            body = json.dumps({"choices": [{"message": {"role": "assistant", "content": self.server.says(pixels)}}]})
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *given):
        pass


def serving(says):
    return running(Server(says))


sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "plugin"))
from smoothsweep_example.asked import ADDRESS, VisionLanguageJudge, named_address  # noqa: E402
from smoothsweep_example.asking import (  # noqa: E402
    EDGE,
    GAP,
    HEAD,
    SIDE,
    VisionModel,
    judge_by_asking,
)

sys.path.pop(0)

CLASSES, EACH = 3, 6
CONFIG = {"model": "seer", "images": 2, "pairs": 2, "seed": 0, "questions": 1000, "per_second": 1e4}


def colour(label, shade=0):
    """Of a person; shades tell images of one apart."""
    return torch.tensor([60 + 60 * label, 10, 9 * shade], dtype=torch.uint8)[:, None, None].expand(3, 16, 16)


def shown(pixels):
    """Red of the image, and of the four references."""
    top, right = EDGE + HEAD, EDGE + SIDE + GAP
    places = [(top + (SIDE + EDGE) // 2, EDGE)]
    places += [(top + row * (SIDE + EDGE), right + column * (SIDE + EDGE)) for row in (0, 1) for column in (0, 1)]
    return [int(pixels[y + 9, x + 9, 0]) for y, x in places]


def likeness(pixels):
    image, *references = shown(pixels)
    return "yes" if all(abs(image - one) < 9 for one in references) else "no"


@pytest.fixture
def inputs(tmp_path, monkeypatch):
    """Three people of one colour each; the second image of every class, and all of class 2, is of another."""
    monkeypatch.setattr(posting, "LONGEST_PAUSE_S", 0.01)
    folders = {name: tmp_path / name for name in ("data", "loot", "out")}
    for folder in folders.values():
        folder.mkdir()
    labels = torch.arange(CLASSES).repeat_interleave(EACH)
    for first, part in enumerate(("train", "test")):
        images = torch.stack([colour(label, 12 * first + row % EACH) for row, label in enumerate(labels)])
        save_tensors(folders["data"] / f"{part}.safetensors", {"images": images, "labels": labels})
    (folders["data"] / "names.json").write_text('["a", "b", "c"]')
    whose = [[c if rank == 0 and c < 2 else (c + 1) % 3 for rank in range(3)] for c in range(CLASSES)]
    reconstructions = torch.stack([colour(c, 20 + rank) for ranks in whose for rank, c in enumerate(ranks)])
    ranks = torch.arange(CLASSES).repeat_interleave(3)
    save_tensors(folders["loot"] / "images.safetensors", {"images": reconstructions, "labels": ranks})
    return folders


def judge(inputs, monkeypatch, says, **changes):
    with serving(says) as server:
        monkeypatch.setenv(ADDRESS, server.url)
        metrics = judge_by_asking({**CONFIG, **changes}, inputs, inputs["out"], TaskContext(work=inputs["out"]))
    return metrics, server


def test_its_shares_are_those_of_what_it_was_shown(inputs, monkeypatch):
    metrics, server = judge(inputs, monkeypatch, likeness)
    of_reconstructions = pytest.approx(2 / 6)
    assert metrics == {
        "asked_acc1": of_reconstructions,
        "asked_unclear": 0.0,
        "asked_real_acc": 1.0,
        "asked_false": 0.0,
    }
    rows = pd.read_parquet(inputs["out"] / "per_image.parquet")
    assert rows.groupby("kind").size().to_dict() == {"loot": 6, "other": 6, "same": 6}
    assert rows[rows["kind"] == "loot"]["hit"].tolist() == [True, False, True, False, False, False]
    classes = pd.read_parquet(inputs["out"] / "per_class.parquet")
    assert classes["asked_acc1"].tolist() == [0.5, 0.5, 0.0]
    for _, _, _, _, pixels in server.asked:
        assert len(set(shown(pixels)[1:])) == 1, "references are all of one person"


def test_without_an_address_nothing_is_sent(inputs, monkeypatch):
    monkeypatch.delenv(ADDRESS, raising=False)
    assert VisionLanguageJudge(model="seer").lack(lambda name: None).remedy.startswith(f"set {ADDRESS}")
    with pytest.raises(InputError, match=rf"^judges\.asked: expected the address .* in {ADDRESS}, got none$"):
        judge_by_asking(CONFIG, inputs, inputs["out"], TaskContext(work=inputs["out"]))
    monkeypatch.setenv(ADDRESS, "https://host/v1/")
    assert named_address() == "https://host/v1" and VisionLanguageJudge(model="seer").lack(lambda name: None) is None
    monkeypatch.setenv(ADDRESS, "https://host/v1?token=secret")
    with pytest.raises(InputError, match=rf"^{ADDRESS}: ") as refused:
        named_address()
    assert "secret" not in str(refused.value)


@pytest.fixture
def asking(tmp_path, monkeypatch):
    """(what the model says, budget) -> an asker and its server's record."""
    monkeypatch.setattr(posting, "LONGEST_PAUSE_S", 0.01)
    kept, servers = KeptAnswers(tmp_path / "kept.sqlite"), []

    def begin(says, questions=100):
        kept.agree(queries=questions, per_second=1e4)
        server = serving(says)
        servers.append(server)
        made = server.__enter__()
        return VisionModel(made.url, "seer", kept), made

    yield begin
    for server in servers:
        server.__exit__(None, None, None)
