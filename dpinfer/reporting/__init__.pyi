from .analysis import Analysis as Analysis
from .writing import check_report_paths as check_report_paths
from .writing import write_reports as write_reports
