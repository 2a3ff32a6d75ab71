"""The judge that asks a vision-language model of the user's: is this the person of these four photographs?"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from PIL import Image, ImageDraw
from torch import Tensor

from smoothsweep.core.data.images import to_uint8
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.named import MOST_BYTES, KeptAnswers, bearer, posted
from smoothsweep.core.judges.base import RECONSTRUCTIONS
from smoothsweep.core.metrics.accuracy import class_means, result_slots
from smoothsweep.core.seeds import generator
from smoothsweep.core.text import shortened
from smoothsweep.tasks.context import Config, Inputs, Metrics, TaskContext
from smoothsweep.tasks.files import load_images, save_rows
from smoothsweep.tasks.reconstructions import reconstructed_images
from smoothsweep_example.asked import ADDRESS, RECONSTRUCTION, TOKEN, named_address

REFERENCES = 4


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question to the vision-language model.

    Attributes:
        kind: RECONSTRUCTION, "same" or "other" (natural pairs).
        of_class: The class whose image it is, or is meant to be.
        rank: Rank of the image among those of its kind and class.
    """

    kind: str
    of_class: int
    rank: int
    image: Tensor
    references: Tensor


def judge_by_asking(config: Config, inputs: Inputs, out: Path, context: TaskContext) -> Metrics:
    """Shares of yes among the answers; per_image.parquet holds all answers, per_class.parquet those of reconstructions.

    config: model; images, of each class at most; pairs, natural ones of each class and kind at most; seed, of the
    references and the order of asking; questions and per_second, the budget. Raises InputError without an address.
    """
    url = named_address()
    if url is None:
        raise InputError(f"judges.asked: expected the address of a vision-language model in {ADDRESS}, got none")
    answers = KeptAnswers(context.work / "answers.sqlite", more="judges.asked.questions")
    answers.agree(queries=config["questions"], per_second=config["per_second"])
    model, rows = VisionModel(url, config["model"], answers), []
    questions = list(_questions(config, inputs))
    order = torch.randperm(len(questions), generator=generator(config["seed"], "order")).tolist()
    for number, place in enumerate(order, start=1):
        question = questions[place]
        answer = model.same_person(question_picture(question.image, question.references))
        rows.append({"kind": question.kind, "class": question.of_class, "rank": question.rank, "hit": answer})
        context.progress(number / len(order), f"question {number}/{len(order)}")
    answers_table = pd.DataFrame(rows).sort_values(["kind", "class", "rank"], ignore_index=True)
    save_rows(out / "per_image.parquet", answers_table.astype({"hit": "boolean"}))
    return _shares(answers_table, out)


def _shares(answers: pd.DataFrame, out: Path) -> Metrics:
    answered = answers[answers["hit"].notna()]
    share = {kind: rows["hit"].astype(float).mean() for kind, rows in answered.groupby("kind")}
    reconstructions = answered[answered["kind"] == RECONSTRUCTION]
    accepted = torch.tensor(reconstructions["hit"].tolist(), dtype=torch.bool)
    classes, hits = class_means(accepted, torch.tensor(reconstructions["class"].tolist(), dtype=torch.int64))
    save_rows(out / "per_class.parquet", pd.DataFrame({"class": classes.numpy(), "asked_acc1": hits.numpy()}))
    return {
        "asked_acc1": share.get(RECONSTRUCTION),
        "asked_unclear": float(answers["hit"].isna().mean()),
        "asked_real_acc": share.get("same"),
        "asked_false": share.get("other"),
    }


def _questions(config: Config, inputs: Inputs) -> Iterator[Question]:
    """The best reconstructions of every attacked class, and as many natural pairs of each class as there can be."""
    reconstructions, train, test = (
        reconstructed_images(inputs[RECONSTRUCTIONS], None),
        *(load_images(inputs["data"], p) for p in ("train", "test")),
    )
    attacked, slots = reconstructions["labels"].unique().tolist(), result_slots(reconstructions["labels"])
    pictures = (
        reconstructions["images"]
        if reconstructions["images"].dtype == torch.uint8
        else to_uint8(reconstructions["images"])
    )
    for label in attacked:
        photographs = (train.labels == label).nonzero()[:, 0]
        for row in ((reconstructions["labels"] == label) & (slots < config["images"])).nonzero()[:, 0].tolist():
            rank = int(slots[row])
            yield _question(RECONSTRUCTION, label, rank, pictures[row], train.images[photographs], config["seed"])
        real = test.images[test.labels == label][: config["pairs"]]
        others = [other for other in attacked if other != label]
        for rank, image in enumerate(real):
            yield _question("same", label, rank, image, train.images[photographs], config["seed"])
            if others:
                chosen = others[int(torch.randint(len(others), (1,), generator=generator(config["seed"], label, rank)))]
                pool = train.images[train.labels == chosen]
                yield _question("other", label, rank, image, pool, config["seed"])


def _question(kind: str, label: int, rank: int, image: Tensor, pool: Tensor, seed: int) -> Question:
    """References drawn without repetition while there are enough of them."""
    draws = generator(seed, kind, label, rank)
    rounds = math.ceil(REFERENCES / len(pool))
    chosen = torch.cat([torch.randperm(len(pool), generator=draws) for _ in range(rounds)])[:REFERENCES]
    return Question(kind=kind, of_class=label, rank=rank, image=image, references=pool[chosen])


# The picture that is sent


SIDE, GAP, EDGE, HEAD = 224, 100, 12, 28  # pixels: of an image, between A and B, around, for the letters


def question_picture(image: Tensor, references: Tensor) -> bytes:
    """A PNG. image: uint8 [3, S, S]; references: uint8 [n, 3, R, R], n even, in two rows; each at 224 pixels."""
    columns = len(references) // 2
    width = 2 * EDGE + SIDE + GAP + columns * SIDE + (columns - 1) * EDGE
    sheet = Image.new("RGB", (width, 2 * EDGE + HEAD + 2 * SIDE + EDGE), "white")
    draw, top = ImageDraw.Draw(sheet), EDGE + HEAD
    draw.text((EDGE, EDGE), "A", fill="black", font_size=20)
    draw.text((EDGE + SIDE + GAP, EDGE), "B", fill="black", font_size=20)
    sheet.paste(_tile(image), (EDGE, top + (SIDE + EDGE) // 2))
    for place, reference in enumerate(references):
        row, column = divmod(place, columns)
        at = (EDGE + SIDE + GAP + column * (SIDE + EDGE), top + row * (SIDE + EDGE))
        sheet.paste(_tile(reference), at)
    written = io.BytesIO()
    sheet.save(written, "PNG")
    return written.getvalue()


def _tile(image: Tensor) -> Image.Image:
    sized = F.interpolate(image[None].float(), size=(SIDE, SIDE), mode="bicubic", antialias=True)[0]
    return Image.fromarray(sized.round().clamp(0, 255).byte().permute(1, 2, 0).contiguous().numpy().astype(np.uint8))


# The service


_TEXT = (
    "The picture has an image A on the left and four reference photographs B on the right. All of B show the same "
    "person. Does A show that person, too? A may be blurred, or differ in age, light, hair or expression. "
    "Answer with one word: yes or no."
)
_JSON = {"Content-Type": "application/json", "Accept": "application/json"}
_YES_OR_NO = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_MOST_TOKENS = 16


class VisionModel:
    """A vision-language model at an OpenAI-compatible address: whether pictures show one person, one by one.

    The protocol is that of FMLLM (arXiv 2505.03519), with its slips mended: one text for reconstructions and for
    natural pairs, temperature 0, references drawn by a seed; an answer that is neither yes nor no counts as neither.
    Stored answers are reused.
    """

    def __init__(self, url: str, model: str, kept: KeptAnswers) -> None:
        self._url, self._model, self._kept = f"{url}/chat/completions", model, kept
        self._headers = {**_JSON, **bearer(TOKEN)}

    def same_person(self, picture: bytes) -> bool | None:
        """The answer to a PNG of `question_picture`; None: neither yes nor no.

        Raises InputError where the budget is spent, nothing answers, or the answer is of another form.
        """
        digest = hashlib.sha256(f"{self._model}\n{_TEXT}\n".encode() + picture).hexdigest()
        answer = self._kept.get(digest)
        if answer is None:
            answer = self._said(posted(self._url, self._kept, self._question(picture), self._headers))
            self._kept.put(digest, answer)
        match = _YES_OR_NO.match(answer)
        return None if match is None else match[1].lower() == "yes"

    def _question(self, picture: bytes) -> bytes:
        image_url = {"url": "data:image/png;base64," + base64.b64encode(picture).decode("ascii")}
        content = [{"type": "text", "text": _TEXT}, {"type": "image_url", "image_url": image_url}]
        body = {
            "model": self._model,
            "temperature": 0,
            "max_tokens": _MOST_TOKENS,
            "messages": [{"role": "user", "content": content}],
        }
        return json.dumps(body).encode()

    def _said(self, body: bytes) -> str:
        """The words of the answer, none for a refusal."""
        try:
            message: Any = json.loads(body)["choices"][0]["message"] if len(body) <= MOST_BYTES else None
            content = message["content"] or ""
        except (ValueError, LookupError, TypeError, RecursionError):
            content = None
        if not isinstance(content, str):
            wanted = '{"choices": [{"message": {"content": "yes"}}]}'
            raise InputError(f"{self._url}: expected {wanted}, got {shortened(body[:200].decode('utf-8', 'replace'))}")
        return content[:1000]
