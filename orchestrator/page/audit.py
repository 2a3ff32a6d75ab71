"""The pages of an audit: one HTML file for readers who want to know, a PDF for those who decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fpdf import FPDF, TextStyle
from matplotlib import get_data_path

from smoothsweep.orchestrator.page.pictures import data_uri
from smoothsweep.orchestrator.page.render import fill
from smoothsweep.orchestrator.reading.audit.result import Audit, judged_rows
from smoothsweep.orchestrator.reading.audit.sentences import (
    accuracy,
    advice,
    audit_sentences,
    person_name,
    ranks_people,
    share,
    shown_rate,
)
from smoothsweep.orchestrator.result.leaks import AMONG, among_words, rate_words
from smoothsweep.orchestrator.result.standing import HEAD

PAPER = {
    "h1": TextStyle(font_size_pt=16, color=(25, 25, 25), b_margin=2, t_margin=4),
    "h2": TextStyle(font_size_pt=11, color=(25, 25, 25), b_margin=1, t_margin=3),
}
"""Headings of audit.pdf."""

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
    return fill("audit.html", **_shown(audit, name, facts, portraits, anonymous))


def audit_pdf(
    audit: Audit, *, name: str, facts: Mapping[str, str], portraits: Sequence[Portrait], anonymous: bool
) -> bytes:
    """audit.pdf: the finding and what each attacker gets; who is exposed, and what this does not say. As `audit_page`.

    A4, in a font that knows other scripts than Latin.
    """
    paper, fonts = FPDF(format="A4"), Path(get_data_path()) / "fonts" / "ttf"
    for style, file in (("", "DejaVuSans.ttf"), ("B", "DejaVuSans-Bold.ttf")):
        paper.add_font("sans", style, str(fonts / file))
    paper.set_margin(18)
    paper.set_title(f"Audit of {name}")
    paper.set_creator("smoothsweep")
    paper.add_page()
    paper.set_font("sans", size=8.5)
    html = fill("audit_pdf.html", **_shown(audit, name, facts, portraits, anonymous))
    paper.write_html(html, font_family="sans", tag_styles=PAPER)
    return bytes(paper.output())


def _shown(
    audit: Audit, name: str, facts: Mapping[str, str], portraits: Sequence[Portrait], anonymous: bool
) -> dict[str, Any]:
    """What the templates of both pages show."""
    pictures = {
        portrait.label: (data_uri(portrait.photograph), data_uri(portrait.reconstruction)) for portrait in portraits
    }
    return {
        "audit": audit,
        "name": name,
        "facts": facts,
        "said": audit_sentences(audit, anonymous=anonymous),
        "portraits": pictures,
        "people": audit.people,
        "person_name": lambda person: person_name(person, anonymous=anonymous),
        "share": lambda value: share(audit, value),
        "accuracy": accuracy,
        "rate_words": rate_words,
        "spec": audit.spec,
        "frameworks": FRAMEWORKS,
        "advice": advice(audit),
        "judged": judged_rows(audit),
        "parts": HEAD,
        "trained_name": lambda trained: "this model" if trained.role == "model" else trained.recipe,
        "trainings": f"The others are {audit.architecture}, trained here for {audit.epochs} epochs on the same images.",
        "colour_rules": "",
        "data": {"title": f"Audit of {name}"},
        "exposed": audit.people[:EXPOSED],
        "anonymous": anonymous,
        "among": among_words,
        "among_count": AMONG,
        "ranked": ranks_people(audit),
        "shown_rate": shown_rate,
    }
