"""GMI, KED-MI and LOMMA: their networks, their GANs' trainings, and the search for one class."""
