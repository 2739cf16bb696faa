"""OpDiff: differential testing of tensor ops for pull requests of deep-learning frameworks."""
