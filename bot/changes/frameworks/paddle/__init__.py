"""PaddlePaddle: the op of the yaml lists is the hub between kernels, shape functions, gradients and public names."""
