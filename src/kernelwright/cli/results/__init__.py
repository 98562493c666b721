"""Commands about what runs came to: `report`, `best`, and the comparison of two runs."""
