"""Tables in YAML beside the code that reads them, validated on load."""

from __future__ import annotations

import importlib.resources
from typing import TypeVar

import yaml
from pydantic import BaseModel

Model = TypeVar("Model", bound=BaseModel)


def read_table(package: str, name: str, model: type[Model]) -> Model:
    """The file ``name`` of a package as its model. Raises pydantic's ValidationError for a file that is not as it should be."""
    text = importlib.resources.files(package).joinpath(name).read_text("utf-8")
    # The same, much quicker, where PyYAML was built with libyaml.
    return model.model_validate(yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
