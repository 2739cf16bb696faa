"""Which public calls an entry really makes: ``rand_like`` calls ``randn_like``, for one."""

import itertools
import json
import struct
from typing import Any, Dict, List

import trace_request
from trace_tally import Tally

_LENGTH = struct.Struct("<I")
_PROGRAMS = 3  # the forms of a first sample
_INCIDENTAL = frozenset(("clone", "nn.Module.__call__", "nn.Module.eval", "nn.Module.train"))


def names_called(entry: Dict[str, Any]) -> List[str]:
    """Canonical names of the calls in an entry's first programs, in the order in which they come."""
    dtypes = entry["dtypes"]
    if not dtypes:
        return []
    request = dict(
        entry,
        dtypes=["float32" if "float32" in dtypes else dtypes[0]],
        kinds=["sample"],
        forms=["function", "method", "inplace", "module"],
        seed=0,
    )
    names: Dict[str, None] = {}
    for written in itertools.islice(trace_request.programs(request, Tally()), _PROGRAMS):
        (size,) = _LENGTH.unpack_from(written.blob)
        fields = json.loads(written.blob[_LENGTH.size : _LENGTH.size + size])
        names.update((call["fn"], None) for call in fields["calls"])
    own = set(entry["names"])
    return [name for name in names if name not in _INCIDENTAL or name in own]
