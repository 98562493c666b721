"""What runs beside a candidate's plan.py, in the sandbox. Standard library only, and nothing of the judge."""
