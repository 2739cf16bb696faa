"""A check as jobs of about equal cost: how it is split, planned as a matrix, and merged into one report."""
