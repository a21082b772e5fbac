"""Makes `src/linerate/_types.py` of the JSON Schema of the lines of udp, tcp and rr.

linerate schema run-line | python3 tools/make_types.py > src/linerate/_types.py
"""

from __future__ import annotations

import json
import sys
from typing import Any

Schema = dict[str, Any]

HEAD = '''"""What events and records hold; made by tools/make_types.py of the program's own schema."""

from __future__ import annotations

from typing import Literal, TypedDict
'''

PLAIN = {"integer": "int", "number": "float", "string": "str", "boolean": "bool", "null": "None"}


def type_of(schema: Schema) -> str:
    """The type of a value, as text that is a type in Python."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    if "const" in schema:
        return f"Literal[{json.dumps(schema['const'])}]"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return union([type_of(each) for each in schema[key]])
    kinds = schema.get("type", "object")
    if isinstance(kinds, list):
        return union([type_of({**schema, "type": kind}) for kind in kinds])
    if kinds == "array":
        return f"list[{type_of(schema.get('items', {}))}]"
    if kinds == "object":
        values = schema.get("additionalProperties")
        return f"dict[str, {type_of(values)}]" if isinstance(values, dict) else "dict[str, Any]"
    return PLAIN[kinds]


def union(types: list[str]) -> str:
    """One of several types; literals in one."""
    words = [word[len("Literal[") : -1] for word in types if word.startswith("Literal[")]
    others = [word for word in types if not word.startswith("Literal[")]
    all_of = ([f"Literal[{', '.join(words)}]"] if words else []) + others
    return " | ".join(dict.fromkeys(all_of))


def comment(text: str, indent: str) -> list[str]:
    return [f"{indent}# {line}".rstrip() for line in text.splitlines()]


def alias(name: str, of: str) -> list[str]:
    """A name for a type, its literals a line each where they are many."""
    if len(of) < 80:
        return [f"{name} = {of}"]
    words, _, rest = of.removeprefix("Literal[").partition("]")
    each = [f"    {word.strip()}," for word in words.split(",")]
    return [f"{name} = Literal[", *each, f"]{rest}"]


def fields(schema: Schema, required: bool) -> list[str]:
    lines = []
    for name, value in schema.get("properties", {}).items():
        if (name in schema.get("required", [])) == required:
            lines += comment(value.get("description", ""), "    ")
            lines.append(f"    {name}: {type_of(value)}")
    return lines


def typed_dict(name: str, schema: Schema) -> list[str]:
    """A class of the keys that are always there, and one that adds the others."""
    text = schema.get("description", name).replace("\n", "\n    ")
    said = [f'    """{text}"""', ""]
    always, sometimes = fields(schema, True), fields(schema, False)
    if not sometimes:
        return ["", "", f"class {name}(TypedDict):", *said, *always]
    if not always:
        return ["", "", f"class {name}(TypedDict, total=False):", *said, *sometimes]
    base = ["", "", f"class _{name}(TypedDict):", *always]
    return [*base, "", "", f"class {name}(_{name}, total=False):", *said, *sometimes]


def event(schema: Schema, rooms: dict[str, Schema]) -> tuple[str, Schema]:
    """A line as one object: what it refers to is in it."""
    of = schema.get("$ref", "").rsplit("/", 1)[-1]
    inner = rooms.get(of, {})
    whole = {
        "description": schema.get("description", ""),
        "properties": {**schema["properties"], **inner.get("properties", {})},
        "required": [*schema.get("required", []), *inner.get("required", [])],
    }
    return f"{schema['properties']['event']['const'].capitalize()}Event", whole


def module(schema: Schema) -> str:
    """The text of the module."""
    rooms = schema["$defs"]
    lines = [HEAD.rstrip()]
    for name, room in rooms.items():
        if "properties" in room:
            lines += typed_dict(name, room)
        else:
            lines += ["", "", *comment(room.get("description", ""), ""), *alias(name, type_of(room))]
    events = [event(each, rooms) for each in schema["oneOf"]]
    for name, whole in events:
        lines += typed_dict(name, whole)
    lines += ["", "", "# A line of udp, tcp and rr."]
    lines.append(f"Event = {' | '.join(name for name, _ in events)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(module(json.load(sys.stdin)))
