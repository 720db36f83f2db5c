"""Noise laws from what people already have, one small file a source."""

from dpinfer.releases.adapters.dp_accounting import from_dp_event
from dpinfer.releases.adapters.opendp import from_opendp
from dpinfer.releases.adapters.pipeline_dp import from_pipeline_dp
from dpinfer.releases.adapters.pydp import from_pydp
from dpinfer.releases.adapters.scale_column import from_scale_column
from dpinfer.releases.adapters.smartnoise import from_smartnoise, smartnoise_laws
from dpinfer.releases.adapters.tumult import from_tumult

__all__ = [
    "from_dp_event",
    "from_opendp",
    "from_pipeline_dp",
    "from_pydp",
    "from_scale_column",
    "from_smartnoise",
    "from_tumult",
    "smartnoise_laws",
]
