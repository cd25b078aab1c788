"""Tensors in the file formats of torch and numpy."""
