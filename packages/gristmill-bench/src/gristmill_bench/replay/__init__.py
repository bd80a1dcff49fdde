"""Recorded runs: read from files, and run in virtual time. The application ``replay`` runs them on an executor."""
