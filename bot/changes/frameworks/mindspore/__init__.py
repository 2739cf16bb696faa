"""MindSpore: the primitive is the hub between registrations, op yamls, gradients and public names."""
