"""GANs that attacks train on public images, or import."""
