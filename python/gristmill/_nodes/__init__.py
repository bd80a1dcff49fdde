"""Nodes: who starts agents there, what an agent is, and how a client and its nodes find each other."""
