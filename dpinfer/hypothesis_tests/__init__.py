"""Tests whose null distributions include the noise."""
