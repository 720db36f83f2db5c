from .domain import SUMMED as SUMMED
from .domain import Domain as Domain
from .hierarchy import Hierarchy as Hierarchy
from .sensitivity import clipped_mean_sensitivity as clipped_mean_sensitivity
from .sensitivity import l1_sensitivity as l1_sensitivity
from .sensitivity import l2_sensitivity as l2_sensitivity
from .workload import Workload as Workload
from .workload import check_counting as check_counting
