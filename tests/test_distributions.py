"""Distributions: laws, moments, tails, independence (see distribution_checks.py)."""

import pytest

import distribution_checks


@pytest.mark.parametrize("check", distribution_checks.CHECKS, ids=lambda check: check.__name__)
def test_distribution(check):
    check()
