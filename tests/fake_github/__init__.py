"""A stateful GitHub over real HTTP, held to GitHub's own OpenAPI description. See README.md."""
