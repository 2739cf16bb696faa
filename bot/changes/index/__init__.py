"""One side of a diff as files with text, and who uses what in them."""
