"""An attack, a defense and a judge for smoothsweep."""
