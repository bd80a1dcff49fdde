"""A cluster on one machine: its nodes are namespaces, joined by links that can be cut, narrowed and delayed."""

from cluster.apart import go_apart, hindrance
from cluster.cluster import Cluster
from cluster.machine import Machine
from cluster.network import Traffic
from cluster.node import Node
from cluster.openmpi import openmpi_hindrance
from cluster.process import Process
from cluster.waiting import until

__all__ = [
    "Cluster",
    "Machine",
    "Node",
    "Process",
    "Traffic",
    "go_apart",
    "hindrance",
    "openmpi_hindrance",
    "until",
]
