"""The pages of an audit: one HTML file for readers who want to know, two PDF pages for those who decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from smoothsweep.core.metrics.metric import Metric
from smoothsweep.orchestrator.page.drawing.paper import Paper
from smoothsweep.orchestrator.page.drawing.sheets import data_uri
from smoothsweep.orchestrator.page.render import fill
from smoothsweep.orchestrator.reading.audit.result import Audit, Trained, judged_rows
from smoothsweep.orchestrator.reading.audit.sentences import (
    accuracy,
    advice,
    audit_sentences,
    person_name,
    ranks_people,
    share,
    shown_rate,
)
from smoothsweep.orchestrator.result.display import leak_verdict
from smoothsweep.orchestrator.result.format import duration
from smoothsweep.orchestrator.result.leaks import AMONG, among_words, rate_words
from smoothsweep.orchestrator.result.standing import HEAD

SCALES = tuple(round(1.0 - 0.05 * step, 2) for step in range(11))
"""Of the type of audit.pdf, the largest first."""

EXPOSED = 8
"""People shown with their pictures, the surest of the most exposed first."""

FRAMEWORKS = (
    ("MITRE ATLAS AML.T0024.001", "Exfiltration via inference API: invert a model. What is measured here."),
    ("NIST AI 100-2 E2025", "Privacy attacks, reconstruction: the access levels are its attacker's capabilities."),
    (
        "EDPB Opinion 28/2024",
        "Whether a model is anonymous: the likelihood of extracting personal data, with means "
        "reasonably likely to be used. These numbers are evidence for that question, not its answer.",
    ),
)
"""Where the usual frameworks ask for this."""


@dataclass(frozen=True, kw_only=True)
class Portrait:
    """A person's photograph beside the best reconstruction, uint8 [H, W, 3] each."""

    label: int
    photograph: np.ndarray
    reconstruction: np.ndarray


def audit_page(
    audit: Audit, *, name: str, facts: Mapping[str, str], portraits: Sequence[Portrait], anonymous: bool
) -> str:
    """audit.html. portraits: of the people exposed most, none where pictures are left out."""
    pictures = {
        portrait.label: (data_uri(portrait.photograph), data_uri(portrait.reconstruction)) for portrait in portraits
    }
    return fill(
        "audit.html",
        audit=audit,
        name=name,
        facts=facts,
        said=audit_sentences(audit, anonymous=anonymous),
        portraits=pictures,
        people=audit.people,
        person_name=lambda person: person_name(person, anonymous=anonymous),
        share=lambda value: share(audit, value),
        spec=audit.spec,
        frameworks=FRAMEWORKS,
        advice=advice(audit),
        judged=judged_rows(audit),
        trained_name=trained_name,
        trainings=trainings(audit),
        colour_rules="",
        data={"title": f"Audit of {name}"},
        exposed=audit.people[:EXPOSED],
        anonymous=anonymous,
        among=among_words,
        among_count=AMONG,
        ranked=ranks_people(audit),
        shown_rate=shown_rate,
    )


def trained_name(trained: Trained) -> str:
    """What a table calls a row of `Audit.beside`."""
    return "this model" if trained.role == "model" else trained.recipe


def trainings(audit: Audit) -> str:
    """How what stands beside the model was trained."""
    return f"The others are {audit.architecture}, trained here for {audit.epochs} epochs on the same images."


def audit_pdf(
    audit: Audit, *, name: str, facts: Mapping[str, str], portraits: Sequence[Portrait], anonymous: bool
) -> bytes:
    """audit.pdf: the finding and what each attacker gets; then who is exposed, and what this does not say.

    Two pages, in the largest type in which everything fits.
    """
    sentences = audit_sentences(audit, anonymous=anonymous)
    for scale in SCALES:
        paper = Paper(f"Audit of {name}", pages=2, scale=scale)
        _write_finding(paper, audit, sentences, name)
        _write_exposed(paper, audit, sentences, portraits, facts, anonymous)
        if paper.fits:
            break
    return bytes(paper.output())


def _write_finding(paper: Paper, audit: Audit, sentences: Mapping[str, Sequence[str]], name: str) -> None:
    paper.add_page()
    paper.write_line(f"How much does {name} leak?", size=18, bold=True)
    for line in (*sentences["answer"], *sentences["beside"], *sentences["membership"][:1]):
        paper.write_line(line, size=11 if not sentences["beside"] else 10)
    _write_beside(paper, audit)
    _write_standing(paper, audit)
    paper.write_line("What an attacker gets, by what they see of the model", size=12, bold=True)
    head = ("sees", audit.matched_words, "attack", "queries", "device time")
    paper.write_rows(head, _access_rows(audit), cuts="attack")
    paper.write_line("Every attack tried, and the controls that know nothing of the model", size=12, bold=True)
    rows = [
        (attack.attack, "control" if attack.control else attack.access, _interval(audit, attack))
        for attack in audit.reached
    ]
    paper.write_rows(("attack", "sees", audit.matched_words), rows, cuts="attack")
    paper.write_line("What to do", size=12, bold=True)
    for line in advice(audit):
        paper.write_line(f"\u2022 {line}", size=9)


def _write_exposed(
    paper: Paper,
    audit: Audit,
    sentences: Mapping[str, Sequence[str]],
    portraits: Sequence[Portrait],
    facts: Mapping[str, str],
    anonymous: bool,
) -> None:
    paper.add_page()
    paper.write_line("Who is exposed", size=18, bold=True)
    for line in sentences["people"]:
        paper.write_line(line)
    _write_portraits(paper, audit, portraits, anonymous)
    if further := sentences["membership"][1:]:
        paper.write_line("Which images it was trained on", size=12, bold=True)
        paper.write_line(" ".join(further), size=8.5)
    paper.write_line("What this does not say", size=12, bold=True)
    for line in (*sentences["trainings"], *sentences["unknown"]):
        paper.write_line(line, size=9)
    paper.write_line("Where frameworks ask for it", size=12, bold=True)
    for framework, words in FRAMEWORKS:
        paper.write_line(f"{framework}: {words}", size=8.5)
    paper.write_line("; ".join(f"{key}: {value}" for key, value in facts.items()), size=7.5, grey=True)


def _write_standing(paper: Paper, audit: Audit) -> None:
    """The strongest attack by every judge, beside what its leak has to be held against."""
    if not audit.standing:
        return
    paper.write_line(f"What {audit.strongest.attack} shows, and beside what", size=12, bold=True)
    rows = [
        (standing.words, *(standing.value_text(name) or "not measured" for name in HEAD))
        for standing in judged_rows(audit)
    ]
    paper.write_rows(("of its images", *HEAD), rows, cuts="of its images", size=7)


def _write_beside(paper: Paper, audit: Audit) -> None:
    """The model, the reference and the other recipes."""
    if not audit.beside:
        return
    spec = audit.spec
    title = "What would lower the leak" if audit.fixes else "Beside a model without defense"
    paper.write_line(title, size=12, bold=True)
    rows = [
        (
            trained_name(trained),
            accuracy(trained),
            _interval(audit, trained.reached),
            trained.reached.attack,
            _beside_reference(spec, trained),
        )
        for trained in audit.beside
    ]
    head = ("trained", "accuracy", "matched", "best attack", "reduction")
    paper.write_rows(head, rows, cuts="best attack", size=7)
    paper.write_line(trainings(audit), size=8, grey=True)


def _beside_reference(spec: Metric, trained: Trained) -> str:
    """`reduces +10.2 [+4, +17]`."""
    verdict = leak_verdict(spec, trained.leak)
    if verdict is None:
        return "reference" if trained.role == "reference" else "not compared"
    return f"{verdict.words} {verdict.size}"


def _access_rows(audit: Audit) -> list[tuple[str, ...]]:
    return [
        (
            level,
            _interval(audit, attack),
            attack.attack,
            f"{attack.queries:,.0f}" if attack.queries else "none",
            duration(attack.seconds),
        )
        for level, attack in audit.by_access().items()
    ]


def _interval(audit: Audit, estimate: Any) -> str:
    spec = audit.spec
    ends = "" if estimate.low != estimate.low else f" [{100 * estimate.low:.0f}, {100 * estimate.high:.0f}]"
    return f"{share(audit, estimate.leak)}{ends}" if spec.unit == "percent" else f"{estimate.leak:.3g}"


def _write_portraits(paper: Paper, audit: Audit, portraits: Sequence[Portrait], anonymous: bool) -> None:
    """Photograph and reconstruction in pairs, four pairs a row, the name and the share below."""
    if not portraits:
        return
    people = {person.label: person for person in audit.people}
    side, step, top = 19, 44, paper.get_y() + 2
    for place, portrait in enumerate(portraits):
        x, y = paper.l_margin + step * (place % 4), top + 34 * (place // 4)
        for offset, pixels in ((0, portrait.photograph), (side + 1, portrait.reconstruction)):
            paper.image(Image.fromarray(pixels), x=x + offset, y=y, w=side, h=side)
        person = people[portrait.label]
        paper.set_xy(x, y + side + 1)
        paper.set_font("sans", "", 6.5)
        rate = rate_words(audit.spec, person)
        rank = f"; top {AMONG}: {among_words(person)}" if ranks_people(audit) else ""
        words = f"{person_name(person, anonymous=anonymous)}\n{rate}{rank}"
        paper.multi_cell(step - 3, 3.4, words, align="L")
    paper.set_xy(paper.l_margin, top + 34 * ((len(portraits) + 3) // 4))
