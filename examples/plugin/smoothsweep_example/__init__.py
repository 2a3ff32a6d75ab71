"""An attack, a defense, a judge and a kind of data for smoothsweep."""
