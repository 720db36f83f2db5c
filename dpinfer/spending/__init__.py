"""Budget spent on error estimates, and on releases before they are made."""

from dpinfer.spending.comparison import SpendingComparison, compare_spending
from dpinfer.spending.corrected import CorrectedEstimate
from dpinfer.spending.error_estimate import ErrorEstimate
from dpinfer.spending.optimal_shares import optimal_shares
from dpinfer.spending.release_plan import ReleasePlan, plan_release
from dpinfer.spending.spend import spend_on_error
from dpinfer.spending.split import BudgetSplit, best_split

__all__ = [
    "BudgetSplit",
    "CorrectedEstimate",
    "ErrorEstimate",
    "ReleasePlan",
    "SpendingComparison",
    "best_split",
    "compare_spending",
    "optimal_shares",
    "plan_release",
    "spend_on_error",
]
