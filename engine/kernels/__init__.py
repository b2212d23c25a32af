"""What kernels of several rooms share: records, integers with a meaning, a heap, a hash table."""
