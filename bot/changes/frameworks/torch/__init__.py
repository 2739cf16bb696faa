"""PyTorch and its out-of-tree backends: the native function is the hub between kernels, stubs and public names."""
