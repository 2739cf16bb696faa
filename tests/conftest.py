"""For all tests: a fake GitHub. Property tests must not fail because a machine is busy: no deadline
for one example, no check of their speed."""

from __future__ import annotations

from fake_github.fixtures import fake_github as fake_github
from hypothesis import HealthCheck, settings

settings.register_profile(
    "busy machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("busy machine")
