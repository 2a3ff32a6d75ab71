"""IF-GMI: Plug & Play's descent, carried on into the feature maps of a StyleGAN2."""
