"""What was published: values, mechanism, queries and publishing rule; readers and writers."""

from dpinfer.releases.files import read_release, validate_release, write_release
from dpinfer.releases.problems import Problem
from dpinfer.releases.release import Release

__all__ = ["Problem", "Release", "read_release", "validate_release", "write_release"]
