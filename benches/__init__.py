"""Speed and memory of Gristmill compared with its peers: `python -m benches [ROW...]`."""
