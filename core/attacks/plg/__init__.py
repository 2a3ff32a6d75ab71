"""Pseudo-label-guided model inversion (PLG-MI): its networks, its GAN's training, and the search for one class."""
