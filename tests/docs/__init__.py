"""Tests of the site that scripts/docs builds."""
