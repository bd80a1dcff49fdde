"""Failures that are put into applications, and what is known of tasks afterwards."""
