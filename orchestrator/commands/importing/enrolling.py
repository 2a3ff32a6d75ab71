"""A face embedder with the people of a gallery, imported as a model that a sweep can attack."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast

import torch
from safetensors.torch import save
from scipy.special import bdtrc
from torch import Tensor

from smoothsweep.core import screen
from smoothsweep.core.data.images import to_unit
from smoothsweep.core.data.labelled import load_labelled, load_unlabelled
from smoothsweep.core.data.sources import content_digest
from smoothsweep.core.errors import InputError
from smoothsweep.core.external.enrolling import (
    Embedding,
    Templates,
    check_embedder_reading,
    enrol,
    is_same_embedder,
    threshold_of,
)
from smoothsweep.core.external.kinds import KINDS, Named, Source, kind_of
from smoothsweep.core.external.model import try_external
from smoothsweep.core.external.recogniser import (
    MOST_BYTES,
    NETWORK,
    EnrolledEmbedder,
    Recogniser,
    SimilarityClassifier,
    open_embedder,
    similarities,
    write_recogniser,
)
from smoothsweep.core.files import making_folder, write_file
from smoothsweep.core.models.embedder_kinds import KINDS as EMBEDDERS
from smoothsweep.core.models.embedders import load_embedder
from smoothsweep.core.models.official import import_judge
from smoothsweep.core.models.reading import Readings
from smoothsweep.core.models.weight_files import file_sha256
from smoothsweep.core.readers.files import read_whole
from smoothsweep.orchestrator.commands.importing.targets import CARD_VERSION, normalised, program_source
from smoothsweep.orchestrator.commands.requests import Reading
from smoothsweep.sweeps.imported import CARD, checked_card

KIND = "recogniser"
OWN_SIZE = 64  # pixels that an embedder of ours is shown, unless it has a size of its own
MOST_STRANGERS = 500
COMPARED = 100  # photographs by which it is seen whether a judge is the embedder itself


@dataclass(frozen=True, kw_only=True)
class Gallery:
    """Who is enrolled and how.

    Attributes:
        people: The photographs of each person.
        templates: A mean for each person, or each photograph.
        threshold: The cosine from which on a person is accepted, None for one false accept in a hundred of `strangers`.
    """

    people: Path
    templates: Templates
    threshold: float | None
    strangers: Path | None

    @property
    def digest(self) -> str:
        """SHA-256 over the photographs and the settings of enrolment."""
        strangers = content_digest(self.strangers) if self.threshold is None and self.strangers else ""
        parts = [content_digest(self.people), self.templates, self.threshold, strangers]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def import_recogniser(source: Source, reading: Reading, gallery: Gallery, out: Path, *, judge: dict[str, str]) -> None:
    """Enrol the gallery and write the folder. judge: the embedder that will judge, as a sweep file has it.

    Raises InputError, one line, for a file that is no embedder, a gallery where no person can be enrolled and tried, an
    embedder that does not tell these people apart, and a judge that is the embedder itself; nothing is written then.
    """
    kind, network, content = _embedder(source)
    words = network if kind == NETWORK else KINDS[kind].words
    opened = open_embedder(kind, network, content, {}, torch.device("cpu"), where=str(source))
    size = _side(opened.side, kind, network, source, reading)
    embed = Embedding(opened, image_size=size, normalisation=normalised(reading), where=str(source))
    embed.check_side()
    people = load_labelled(gallery.people, size=size, bits=reading.bits)
    if kind != NETWORK:
        sizes = Readings() if opened.side is None else Readings(sizes=())
        check_embedder_reading(embed, people.train, people.test, sizes)
    templates, owners = enrol(embed(people.train.images), people.train.labels, templates=gallery.templates)
    probes, names = embed(people.test.images), people.test.names
    if judge:
        _refuse_same(people.test.images, probes, judge)
    cosines = similarities(probes, templates, owners)
    hits = cosines.argmax(1) == people.test.labels
    share, chance = hits.double().mean().item(), 1 / people.test.num_classes
    if bdtrc(int(hits.sum()) - 1, len(hits), chance) >= 0.01:
        raise InputError(
            f"{source}: expected an embedder that tells the people of the gallery apart, got {share:.1%} of "
            f"{len(hits)} photographs (chance {chance:.1%}): are the faces framed as it was trained?"
        )
    threshold = _threshold(gallery, embed, templates, owners, bits=reading.bits)
    recogniser = Recogniser(
        embedder=content,
        kind=kind,
        name=network,
        templates=templates,
        owners=owners,
        threshold=threshold,
        enrolled=gallery.digest,
    )
    abilities = try_external(
        replace(opened, answer=SimilarityClassifier(opened.answer, templates, owners)),
        answers="logits",
        num_classes=people.test.num_classes,
        image_size=size,
        normalisation=embed.normalisation,
        where=embed.where,
    )
    card = checked_card(
        {
            "version": CARD_VERSION,
            "architecture": KIND,
            "num_classes": len(names),
            "image_size": size,
            "transform_input": False,
            **asdict(embed.normalisation),
            "outside": {"answers": "logits", "access": abilities.access, "rows": abilities.rows},
            "class_names": names if len(set(names)) == len(names) else None,
            "data": "labelled",
            "defense": None,
            "source": program_source(source.name, KIND, len(names), file_sha256(cast("Path", source))),
            "test_acc": share,
        },
        "audit",
    )
    with making_folder(out) as draft:
        write_file(draft / EnrolledEmbedder.file, write_recogniser(recogniser))
        write_file(draft / CARD, card.text)
    accepted = cosines.gather(1, people.test.labels[:, None]) >= threshold
    screen.out(
        f"{source.name}: {words} with {len(names)} people enrolled by {len(templates)} templates; {share:.1%} of "
        f"{len(hits)} other photographs of theirs are nearest to the right person"
    )
    screen.out(
        f"accepted from a cosine of {threshold:.3f}: {accepted.double().mean():.1%} of these photographs as the right "
        "person"
    )
    if opened.remark:
        screen.out(f"{source.name}: {opened.remark}")


def _side(stated: int | None, kind: str, network: str, source: Source, reading: Reading) -> int:
    """The side in pixels that an embedder is shown. stated: what its file says. Raises InputError."""
    size = stated or reading.image_size
    if size is None and kind == NETWORK:
        size = EMBEDDERS[network].size or OWN_SIZE
    if size is None:
        words = KINDS[kind].words
        raise InputError(f"--image-size: expected the side in pixels that {words} was trained at, got none")
    if reading.image_size not in (None, size):
        raise InputError(f"--image-size: expected {size}, which {source} takes, got {reading.image_size}")
    return size


def _threshold(gallery: Gallery, embed: Embedding, templates: Tensor, owners: Tensor, *, bits: int | None) -> float:
    """The cosine from which on a face is accepted: what was said, else what strangers show. Raises InputError."""
    if gallery.threshold is not None:
        return gallery.threshold
    if gallery.strangers is None:
        expected = "expected it, or --public, whose people are strangers to the gallery, got neither"
        raise InputError(f"--threshold: {expected}")
    strangers = load_unlabelled(gallery.strangers, size=embed.image_size, limit=MOST_STRANGERS, bits=bits)
    return threshold_of(similarities(embed(strangers), templates, owners))


def _embedder(source: Source) -> tuple[str, str, bytes]:
    """(kind of program or `NETWORK`, name of a network of ours, what is kept of it) of an embedder's file.

    Raises InputError for anything but an embedder in a file.
    """
    kind = kind_of(source)
    if isinstance(source, Named) or (kind is not None and (not KINDS[kind].computes_alone or kind == KIND)):
        words = KINDS[cast("str", kind)].words
        raise InputError(f"MODEL {source}: expected the file of an embedder beside --gallery, got {words}")
    if kind is not None:
        try:
            return kind, "", read_whole(source, most_bytes=MOST_BYTES)
        except OSError as error:
            raise InputError(f"MODEL {source}: expected {KINDS[kind].words}, got: {error.strerror}") from None
    judge = import_judge(source)
    return NETWORK, judge.name, save({name: value.contiguous() for name, value in judge.state.items()})


def _refuse_same(images: Tensor, features: Tensor, judge: dict[str, str]) -> None:
    """Raise InputError where the judge has the same features as the model under audit, and so is the same network."""
    chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))[:COMPARED]
    network = load_embedder(judge["name"], Path(judge["weights"]) if "weights" in judge else None)
    with torch.no_grad():
        seen = torch.cat([network(to_unit(batch)).float() for batch in images[chosen].split(25)])
    if len(chosen) >= 3 and is_same_embedder(features[chosen], torch.nn.functional.normalize(seen, dim=1)):
        raise InputError(
            f"--judge {judge['name']}: expected another embedder than the one under audit, got one that sees the same "
            f"in {len(chosen)} photographs: whatever deceives an embedder deceives it as a judge, too"
        )
