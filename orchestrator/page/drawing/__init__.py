"""What figures are drawn with: canvas, colours, sheets of images."""
