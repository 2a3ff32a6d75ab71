"""Procedural faces: no real person's face, labelled by identity, free of rights."""

from smoothsweep.core.data.synthetic.faces import faces_of, synthetic_faces
from smoothsweep.core.data.synthetic.streams import Population
from smoothsweep.core.data.synthetic.traits import TRAIT_NAMES, identity_traits

__all__ = ["TRAIT_NAMES", "Population", "faces_of", "identity_traits", "synthetic_faces"]
