"""What the published data sets are called, for whoever must not load torch to know it."""

PUBLISHED_SETS = ("facescrub", "celeba", "celeba64", "stanford_dogs", "stanford_dogs_cropped", "imagenette")
