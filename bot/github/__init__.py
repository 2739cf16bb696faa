"""GitHub: events, pull requests, comments, check runs, artifacts, commands."""
