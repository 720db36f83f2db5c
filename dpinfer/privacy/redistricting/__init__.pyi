from .allocations import PERSONS as PERSONS
from .allocations import UNITS as UNITS
from .allocations import attributes as attributes
from .scenario import AffectedQuery as AffectedQuery
from .scenario import Scenario as Scenario
from .scenario import build_scenario as build_scenario
from .scenarios import SCENARIOS as SCENARIOS
from .scenarios import WHOLE_RELEASE as WHOLE_RELEASE
