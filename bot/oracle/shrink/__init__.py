"""Shrinking: from a failing program to one that a maintainer would have written.

``order.py`` says which of two programs is the smaller one, the ``passes_*`` modules propose smaller ones, ``search.py``
tries the passes until none gets any further, and ``shrink.py`` runs the searches of all causes side by side.
"""
