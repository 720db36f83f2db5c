"""Certificates: simulated coverage of intervals and size of tests, in a release's own settings."""

from dpinfer.calibration.certificate import Certificate
from dpinfer.calibration.collection import Certificates
from dpinfer.calibration.grid import LibraryCertificates, certify_library
from dpinfer.calibration.intervals import certify_interval
from dpinfer.calibration.releases import certify
from dpinfer.calibration.sizes import certify_model, certify_test
from dpinfer.calibration.verdict import replicates_to_decide
from dpinfer.calibration.writing import check_certificates_path, write_certificates

__all__ = [
    "Certificate",
    "Certificates",
    "LibraryCertificates",
    "certify",
    "certify_interval",
    "certify_library",
    "certify_model",
    "certify_test",
    "check_certificates_path",
    "replicates_to_decide",
    "write_certificates",
]
