"""The applications that figures run, in two sizes: one that takes some seconds, and one that can be drawn."""

from __future__ import annotations

from typing import Any

#: The applications of the paper's measurements.
PAPERS: dict[str, dict[str, Any]] = {
    "cholesky": {"size": 2_000, "block": 200},
    "docking": {
        "ligands": 30,
        "initial": 3,
        "iterations": 1,
        "batch": 3,
        "atoms": 12,
        "edge": 15,
        "share": 15,
    },
    "fedlearn": {"clients": 16, "rounds": 3, "epochs": 1, "accuracy": 0.5},
    "mapreduce": {"maps": 32, "files": 1_000},
    "moldesign": {
        "candidates": 100,
        "initial": 8,
        "simulations": 24,
        "batch": 8,
        "share": 50,
        "committee": 4,
    },
    "montage": {"rows": 3, "columns": 3, "size": 128},
}
#: All applications with a graph of their own, so small that each task can be seen. Some have several structures.
DRAWN: dict[str, dict[str, Any]] = {
    "cholesky": {"name": "cholesky", "size": 64, "block": 16},
    "docking": {"name": "docking", **PAPERS["docking"], "ligands": 10, "initial": 2, "batch": 2},
    "fedlearn": {
        "name": "fedlearn",
        "clients": 4,
        "rounds": 3,
        "epochs": 1,
        "accuracy": 0.1,
    },
    "mapreduce": {"name": "mapreduce", "maps": 8, "files": 8},
    "moldesign": {
        "name": "moldesign",
        "candidates": 20,
        "initial": 4,
        "simulations": 8,
        "batch": 4,
        "share": 10,
        "committee": 2,
    },
    "montage": {"name": "montage", "rows": 2, "columns": 2, "size": 128},
    **{
        f"synthetic, {structure}": {"name": "synthetic", "structure": structure, "tasks": 8}
        for structure in ("bag", "diamond", "reduce", "sequence")
    },
    "stencil": {"name": "stencil", "width": 6, "steps": 5},
    "fib": {"name": "fib", "n": 5},
    "jacobi": {"name": "jacobi", "iterations": 4, "size": 64},
    "matmul": {"name": "matmul", "size": 64},
    "blackscholes": {"name": "blackscholes", "options": 1_000},
    "physics": {"name": "physics", "simulations": 4, "balls": 2},
    "examol": {"name": "examol", "candidates": 24, "rounds": 2, "batch": 2, "shares": 2},
    "lnni": {"name": "lnni", "calls": 4, "inferences": 1},
    "molscreen": {"name": "molscreen", "molecules": 200, "batch": 50},
}
