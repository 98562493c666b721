"""Loop nests over index maps: the nodes, how operations of torch become them, and how they are written."""
