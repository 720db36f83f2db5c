from .report import Analysis as Analysis
from .report import check_report_paths as check_report_paths
from .report import write_reports as write_reports
