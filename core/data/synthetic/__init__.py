"""Procedural faces: no real person's face, labelled by identity, free of rights."""

from smoothsweep.core.data.synthetic.faces import faces_of, synthetic_faces
from smoothsweep.core.data.synthetic.people import TRAIT_NAMES, Population, identity_traits

__all__ = ["TRAIT_NAMES", "Population", "faces_of", "identity_traits", "synthetic_faces"]
