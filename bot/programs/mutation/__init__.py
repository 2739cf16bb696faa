"""Mutation: programs made of a source's programs, to reach what its samples miss."""
