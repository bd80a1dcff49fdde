"""Figures of the papers, made again: measurements, pictures, a page, and checks of the papers' relations."""
