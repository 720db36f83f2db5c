from .counts import FlatPrior as FlatPrior
from .counts import FunctionPrior as FunctionPrior
from .counts import NegativeBinomialPrior as NegativeBinomialPrior
from .counts import PoissonPrior as PoissonPrior
from .counts import TablePrior as TablePrior
from .tables import DirichletMultinomialPrior as DirichletMultinomialPrior
from .tables import HierarchicalPrior as HierarchicalPrior
from .tables import previous_table_prior as previous_table_prior
