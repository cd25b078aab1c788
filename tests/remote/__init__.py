"""Tests of torch calls that run on other workers."""
