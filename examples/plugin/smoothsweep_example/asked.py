"""The judge that asks a vision-language model of the user's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar

from annotated_types import MaxLen, MinLen

from smoothsweep.core.bounds import Count, Positive, Seed
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.named import is_plain
from smoothsweep.core.judges.base import RECONSTRUCTIONS, Judge, MissingRequirement, Planned, StageBuilder, StageWork
from smoothsweep.core.metrics.metric import Metric

ADDRESS, TOKEN = "SMOOTHSWEEP_ASKED_URL", "SMOOTHSWEEP_ASKED_TOKEN"
"""Environment variables: an OpenAI-compatible address such as https://host/v1, and the bearer token it wants."""

RECONSTRUCTION = "loot"
"""What the artifact calls a question about a reconstruction, beside `same` and `other` of natural pairs."""

_FMLLM = """@misc{ho2025uncovering,
  title = {Uncovering the Limitations of Model Inversion Evaluation: Benchmarks and Connection to Type-{I} Adversarial
    Attacks},
  author = {Ho, Sy-Tuyen and Hao, Koh Jun and Nguyen, Ngoc-Bao and Binder, Alexander and Cheung, Ngai-Man},
  year = {2025},
  eprint = {2505.03519}, archiveprefix = {arXiv}
}"""

UNANSWERED = "it answered nothing of the kind with yes or no, or there was nothing of the kind to ask about"

_leak = partial(Metric, unit="percent", better="low", group="leak", searched=True)
_check = partial(Metric, unit="percent", better=None, group="check")

COLUMNS: tuple[Metric, ...] = (
    _leak(
        key="asked_acc1",
        label="vision-language judge",
        ceiling="asked_real_acc",
        counted="reconstructions",
        null=UNANSWERED,
        description=(
            "Share of reconstructions of which a vision-language model says that they show the person of four training "
            "photographs, among those of which it says yes or no."
        ),
    ),
    _check(
        key="asked_unclear",
        label="vision-language judge, no answer",
        counted="own images",
        description=("Share of its questions that the vision-language model answered with neither yes nor no."),
    ),
    _check(
        key="asked_real_acc",
        label="vision-language judge on real images",
        null=UNANSWERED,
        counted="own images",
        description=(
            "How often the vision-language model says yes to a real test image of the person, by the same words: the "
            "ceiling of its verdict on reconstructions."
        ),
    ),
    _check(
        key="asked_false",
        label="vision-language judge on others",
        null=UNANSWERED,
        counted="own images",
        description="How often it says yes to a real test image of another attacked person.",
    ),
)


def named_address() -> str | None:
    """Where this user lets pictures be sent to; None where nowhere. Raises InputError for what is no such address."""
    url = os.environ.get(ADDRESS)
    if not url:
        return None
    if not is_plain(url):
        raise InputError(
            f"{ADDRESS}: expected an address like https://host/v1, without a user, a query or a fragment, got another"
        )
    return url.rstrip("/")


@dataclass(frozen=True, kw_only=True)
class VisionLanguageJudge(Judge):
    """A vision-language model of the user's, asked whether a reconstruction shows the person of four photographs.

    Where it is reached stands in no sweep file: the user says so by SMOOTHSWEEP_ASKED_URL, and without it
    nothing is sent and the columns stay empty, with the reason. Sent are reconstructions and real images of the
    attacked classes.

    Attributes:
        model: Name of the model, as the endpoint knows it.
        images: Reconstructions of each class at most, the best first.
        pairs: Real test images of each class that are asked about at most, each once of its own person and once of
            another.
        seed: Seed of the reference photographs and the order of questions.
        questions: Questions of each trial at most.
        per_second: Questions sent in a second at most.
    """

    cites = (_FMLLM,)

    work = StageWork(
        run="smoothsweep_example.asking:judge_by_asking",
        on_device=False,
        labelled=("data", RECONSTRUCTIONS),
        asks_elsewhere=True,
    )
    columns = COLUMNS
    answers = "per_image.parquet"
    example: ClassVar[Mapping[str, Any]] = {"model": "made-up"}
    wrong: ClassVar[tuple[Mapping[str, Any], ...]] = ({"model": ""},)
    hints = ("questions", "per_second")

    model: Annotated[str, MinLen(1), MaxLen(300)]
    images: Count = 5
    pairs: Count = 10
    seed: Seed = 0
    questions: Count = 5000
    per_second: Positive = 1.0

    def lack(self, staged: Callable[[str], Path | None]) -> MissingRequirement | None:
        """An address to ask at."""
        if named_address() is not None:
            return None
        reason, remedy = "no vision-language model is named", f"set {ADDRESS}, and pictures are sent there"
        return MissingRequirement(weights=None, reason=reason, remedy=remedy)

    def plan(self, builder: StageBuilder, name: str) -> Planned:
        """Photographs at the target's size."""
        hints = {key: getattr(self, key) for key in self.hints}
        inputs = {"data": builder.data(builder.image_size), RECONSTRUCTIONS: RECONSTRUCTIONS}
        return Planned(config=builder.stated(self.hints), hints=hints, inputs=inputs)

    @classmethod
    def counts(cls, answers: Any, inputs: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        """Questions asked; of the rates on real images, those that were answered."""
        kinds = answers[answers["hit"].notna()]["kind"]
        real = {key: int((kinds == kind).sum()) for key, kind in (("asked_real_acc", "same"), ("asked_false", "other"))}
        return {"asked_unclear": len(answers), **real}
