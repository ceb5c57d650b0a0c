"""Connections of the kernel to clusters that somebody else started."""
