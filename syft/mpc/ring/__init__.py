"""Arithmetic on int64 tensors modulo 2**64: products by limbs, bit slicing, keys of function secret sharing."""
