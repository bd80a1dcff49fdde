"""Speed and memory of Gristmill beside its peers: `python -m benches [ROW...]`."""
