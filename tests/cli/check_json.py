#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""usage: check_json.py SCHEMA FILE

Validates FILE against the JSON Schema keywords that SCHEMA uses; an unknown keyword is an error, so that nothing goes unchecked."""
import json
import re
import sys

TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None)}
SILENT = {"$schema", "title", "$defs"}


def is_type(value, name):
    return isinstance(value, TYPES[name]) and not (isinstance(value, bool) and name in ("integer", "number"))


def object_faults(value, schema, top, where):
    known = schema.get("properties", {})
    for key in schema.get("required", []):
        if key not in value:
            yield f"{where}: {key} is missing"
    for key, item in value.items():
        rest = schema.get("additionalProperties", True)
        if key in known:
            yield from faults(item, known[key], top, f"{where}.{key}")
        elif rest is False:
            yield f"{where}: {key} is not allowed"
        elif rest is not True:
            yield from faults(item, rest, top, f"{where}.{key}")


def faults(value, schema, top, where="top"):
    for keyword, wanted in schema.items():
        if keyword == "$ref":
            yield from faults(value, top["$defs"][wanted.rsplit("/", 1)[1]], top, where)
        elif keyword == "type" and not is_type(value, wanted):
            yield f"{where} is not of type {wanted}"
        elif keyword == "const" and value != wanted:
            yield f"{where} is not {wanted}"
        elif keyword == "enum" and (value not in wanted or isinstance(value, bool)):
            yield f"{where} is none of {wanted}"
        elif keyword == "pattern" and not re.search(wanted, value):
            yield f"{where} does not match {wanted}"
        elif keyword == "items":
            for place, item in enumerate(value if isinstance(value, list) else []):
                yield from faults(item, wanted, top, f"{where}[{place}]")
        elif keyword == "oneOf":
            tried = [list(faults(value, option, top, where)) for option in wanted]
            if sum(not found for found in tried) != 1:
                yield f"{where} is not exactly one of {len(wanted)} forms: " + "; ".join(min(tried, key=len)[:3])
        elif keyword not in SILENT | {"type", "const", "enum", "pattern", "required", "properties", "additionalProperties"}:
            yield f"the schema's keyword {keyword} is not checked"
    if isinstance(value, dict):
        yield from object_faults(value, schema, top, where)


def main():
    schema, document = (json.load(open(path, encoding="utf-8")) for path in sys.argv[1:3])
    found = list(faults(document, schema, schema))
    print("\n".join(found[:10]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
