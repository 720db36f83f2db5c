"""Noise laws from what people already have, one small file a source."""

from dpinfer.releases.adapters.dp_accounting import from_dp_event
from dpinfer.releases.adapters.opendp import from_opendp
from dpinfer.releases.adapters.scale_column import from_scale_column

__all__ = ["from_dp_event", "from_opendp", "from_scale_column"]
