"""Nodes: the placements that start agents, the agent itself, and the way a client and its nodes find each other."""
