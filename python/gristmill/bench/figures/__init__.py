"""Figures of the papers, made again: measurements, pictures, a page, and whether what they say holds here."""
