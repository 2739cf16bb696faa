"""OneFlow: the functional is the hub between kernels, op types, gradients and public names."""
