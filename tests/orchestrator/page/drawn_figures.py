"""A drawn figure as its reader gets it."""

import xml.etree.ElementTree as ElementTree

SVG = "{http://www.w3.org/2000/svg}"


def drawn(canvas):
    return ElementTree.fromstring(canvas.svg_file())


def titles(canvas):
    return [title.text for title in drawn(canvas).iter(f"{SVG}title")]
