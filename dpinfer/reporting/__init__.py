"""The analysis of a release as text, HTML, CSV, JSON and Parquet."""

from dpinfer.reporting.analysis import Analysis
from dpinfer.reporting.writing import check_report_paths, write_reports

__all__ = ["Analysis", "check_report_paths", "write_reports"]
