"""Renders patterns as candidates of the cpp contract."""
