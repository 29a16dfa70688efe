"""What agents see of the data in messages."""

from __future__ import annotations

from typing import Any

import pytest
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import ParseDict

from ksadk.a2a.parts import part_from_wire
from ksadk.a2a.runners.base import DataPart

VALUES: list[tuple[Any, str]] = [
    (4, "4"),
    (-0.5, "-0.5"),
    (2**53, "9007199254740992"),
    (2.0**60, "1.152921504606847e+18"),
    (True, "True"),
    (None, "None"),
    ("4.0", "'4.0'"),
    ({"b": [1, {"d": 2, "c": 3}], "a": 1.5}, "{'a': 1.5, 'b': [1, {'c': 3, 'd': 2}]}"),
]


@pytest.mark.parametrize(("sent", "seen"), VALUES, ids=str)
def test_data_has_whole_numbers_and_its_keys_in_order(sent: Any, seen: str) -> None:
    part = part_from_wire(ParseDict({"data": sent}, pb.Part()))
    assert isinstance(part, DataPart)
    assert repr(part.data) == seen
