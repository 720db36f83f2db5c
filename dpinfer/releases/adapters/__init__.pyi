from .dp_accounting import from_dp_event as from_dp_event
from .opendp import from_opendp as from_opendp
from .pipeline_dp import from_pipeline_dp as from_pipeline_dp
from .pydp import from_pydp as from_pydp
from .scale_column import from_scale_column as from_scale_column
from .smartnoise import from_smartnoise as from_smartnoise
from .smartnoise import smartnoise_laws as smartnoise_laws
from .tumult import from_tumult as from_tumult
