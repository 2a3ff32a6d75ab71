"""What is known of the package random-face and its read-outs without reading a file. Loads no torch."""

from __future__ import annotations

RANDOM_FACE_LICENCE = (
    "The package random-face is under the Apache License 2.0. Its weights were distilled from NVIDIA's StyleGAN2 of "
    "FFHQ, whose licence allows non-commercial use only (research or evaluation), and the photographs of FFHQ have "
    "terms of their own. Treat the weights, and images and results made with them, as non-commercial: do not "
    "redistribute the imported folder, and let what is made with it carry this notice."
)
MOST_PER_PIXEL = 4
"""Pixels of a prior, at most, for each pixel that a target sees, along a side."""
READ_OUT = (64, 128, 256)
"""Sides in pixels of random-face's images that a read-out makes; without one it makes 1024."""
IMAGES = 96
"""Images of 1024 pixels that the read-outs learn from unless another number is given."""
