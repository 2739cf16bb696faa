"""Fields that GitHub always sends and no test looks at: made from the description's own schemas."""

from __future__ import annotations

from typing import Any

from .contract import Contract

_PLAIN: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False, "array": []}
_BY_FORMAT = {"date-time": "2020-01-01T00:00:00Z", "uri": "https://github.com"}


class Filler:
    """Adds what a schema requires and the caller did not give."""

    def __init__(self, contract: Contract) -> None:
        self._contract = contract

    def filled(self, schema_name: str, values: dict[str, Any], url: str = "") -> dict[str, Any]:
        """``values`` with every required field of a component; links are made of ``url``."""
        schema = self._contract.description["components"]["schemas"][schema_name]
        return self._object(schema, values, url)

    def _object(self, schema: dict[str, Any], given: dict[str, Any], url: str) -> dict[str, Any]:
        schema = self._contract.resolve(schema)
        properties = schema.get("properties", {})
        result = dict(given)
        for name in schema.get("required", ()):
            if name not in result:
                result[name] = self._value(name, properties[name], url)
        for name, value in given.items():
            inner = self._contract.resolve(properties.get(name, {}))
            if isinstance(value, dict) and "properties" in inner:
                result[name] = self._object(inner, value, url)
        return result

    def _value(self, name: str, schema: dict[str, Any], url: str) -> Any:
        schema = self._contract.resolve(schema)
        if schema.get("nullable"):
            return None
        if "enum" in schema:
            return schema["enum"][0]
        for word in ("oneOf", "anyOf", "allOf"):
            if word in schema and "type" not in schema:
                return self._value(name, schema[word][0], url)
        if schema.get("type") == "object":
            return self._object(schema, {}, url)
        if name.endswith("_url") and schema.get("format") in (None, "uri"):
            return f"{url or 'https://github.com'}/{name.removesuffix('_url')}"
        return _BY_FORMAT.get(schema.get("format", ""), _PLAIN[schema["type"]])
