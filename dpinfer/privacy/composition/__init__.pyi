from .advanced import compose_advanced as compose_advanced
from .allocation import BudgetAllocation as BudgetAllocation
from .entries import LedgerEntry as LedgerEntry
from .ledger import BudgetLedger as BudgetLedger
from .parallel import compose_parallel as compose_parallel
from .repeated import RepeatedDP as RepeatedDP
from .repeated import compose_optimal as compose_optimal
from .sequential import compose as compose
