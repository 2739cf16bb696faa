"""Sources of one language each, cut into definitions: C++ and CUDA, Python, TableGen, YAML."""
