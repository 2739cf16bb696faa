"""What is run: programs, their sources and their transformations."""
