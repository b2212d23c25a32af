"""What kernels of several rooms share: integers with a meaning, hashing."""
