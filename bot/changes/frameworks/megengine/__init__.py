"""MegEngine: OpDefs and modes are the hub between dnn's kernels, operators and public names."""
