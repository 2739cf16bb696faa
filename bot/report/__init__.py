"""Findings -> Markdown, JSON and repro scripts."""
